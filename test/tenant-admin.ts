import type { Db } from '../src/daemon/platform/db/db.ts'
import type { Tables } from '../src/daemon/platform/db/tables.ts'
import { addKey, addRole, addTenant, addUser } from './accounts.ts'
import type { Answer, Gateway } from './harness.ts'
import { type RecordedChange, recordedChanges } from './recorded-changes.ts'

export type Call = (method: string, path: string, body?: unknown) => Promise<Answer>

/** A tenant with an administrator, used by one test. Its data and rate limits do not affect other tests. */
export type TestTenant = {
  id: string
  admin: Tables['users']
  db: Db
  /** Calls with the administrator's key. */
  call: Call
  addUser(given?: Partial<Tables['users']>): Promise<Tables['users']>
  /** Calls with a new key of this user. */
  callFor(user: Tables['users']): Promise<Call>
  /** Calls with a key of a new user, who has only this custom role. */
  callAs(role: Omit<Parameters<typeof addRole>[1], 'tenant_id'>): Promise<Call>
  /** The recorded changes, in order. */
  audit(): Promise<RecordedChange[]>
}

export async function addTestTenant(gateway: Gateway): Promise<TestTenant> {
  const { db } = gateway.app
  const { id } = await addTenant(db)
  const inTenant = { tenant_id: id }
  const callFor = async (user: Tables['users']): Promise<Call> => {
    const { secret } = await addKey(db, user)
    return (method, path, body) => gateway.call(method, path, body, { key: secret })
  }
  const admin = await addUser(db, { ...inTenant, role: 'admin' })
  return {
    id,
    admin,
    db,
    call: await callFor(admin),
    callFor,
    addUser: (given) => addUser(db, { ...given, ...inTenant }),
    async callAs(given) {
      const role = await addRole(db, { ...given, ...inTenant })
      const user = await addUser(db, inTenant)
      await db
        .insertInto('user_roles')
        .values({ ...inTenant, user_id: user.id, role_id: role.id })
        .execute()
      return callFor(user)
    },
    audit: () => recordedChanges(db, id),
  }
}
