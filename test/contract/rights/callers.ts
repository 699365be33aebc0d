import type { Db } from '../../../src/daemon/platform/db/db.ts'
import type { Tables } from '../../../src/daemon/platform/db/tables.ts'
import type { Access, Route } from '../../../src/daemon/platform/http/route.ts'
import { type Level, SECTIONS, type Section } from '../../../src/shared/permissions.ts'
import { addKey, addRole, addUser } from '../../accounts.ts'
import type { RouteCall } from './route-calls.ts'

/** One kind of caller and its rights. */
export type CallerKind = {
  name: string
  /** Null if the caller presents no key. */
  key: string | null
  mayUse(access: Access, level: Level): boolean
}

type Sectioned = Exclude<Access, 'none' | 'key' | 'operator'>

/** All kinds of callers with different rights (architecture §6), in one tenant. */
export async function addCallers(db: Db, tenantId: string, operatorKey: string): Promise<CallerKind[]> {
  const tenant = { tenant_id: tenantId }
  const keyOf = async (user: Partial<Tables['users']>, settings = {}) =>
    (await addKey(db, await addUser(db, { ...tenant, ...user }), { settings })).secret

  async function customRole(section: Section, level: Level): Promise<CallerKind> {
    const role = await addRole(db, { ...tenant, permissions: [{ section, level }] })
    const user = await addUser(db, tenant)
    await db
      .insertInto('user_roles')
      .values({ ...tenant, user_id: user.id, role_id: role.id })
      .execute()
    const { secret } = await addKey(db, user)
    const mayUse: Sections = (access, needed) => access === section && (needed === 'reader' || level === 'admin')
    return kind(`custom ${level} of ${section}`, secret, mayUse)
  }

  const custom: CallerKind[] = []
  for (const section of SECTIONS) {
    custom.push(await customRole(section, 'reader'), await customRole(section, 'admin'))
  }
  return [
    { name: 'nobody', key: null, mayUse: (access) => access === 'none' },
    kind('user', await keyOf({ role: 'user' }), () => false),
    kind('globalReader', await keyOf({ role: 'globalReader' }), (_, level) => level === 'reader'),
    await addAdministrator(db, tenantId),
    kind('admin without adminAccess', await keyOf({ role: 'admin' }, { adminAccess: false }), () => false),
    { name: 'operator', key: operatorKey, mayUse: () => true },
    ...custom,
  ]
}

/** An administrator of this tenant. */
export async function addAdministrator(db: Db, tenantId: string): Promise<CallerKind> {
  const { secret } = await addKey(db, await addUser(db, { tenant_id: tenantId, role: 'admin' }))
  return kind('admin', secret, () => true)
}

type Sections = (access: Sectioned, level: Level) => boolean

/** A caller with a key. It may use the routes for any key, but not those of the operator. */
function kind(name: string, key: string, mayUse: Sections): CallerKind {
  return {
    name,
    key,
    mayUse(access, level) {
      if (access === 'none' || access === 'key') return true
      return access !== 'operator' && mayUse(access, level)
    },
  }
}

export const isPermitted = (caller: CallerKind, { access, method }: Route): boolean =>
  caller.mayUse(access, method === 'GET' ? 'reader' : 'admin')

/** Whether the route serves resources of other owners to the caller. */
export const isServed = (caller: CallerKind, route: Route, { also }: Pick<RouteCall, 'also'>): boolean =>
  isPermitted(caller, route) && (also === undefined || caller.mayUse(also, 'admin'))

/** The status that a route returns to a caller without the right. */
export const refusalOf = ({ key }: CallerKind): number => (key === null ? 401 : 403)
