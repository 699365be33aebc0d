import type { Tenant } from '../../../shared/wire/tenants.ts'
import { columns, flexible } from '../../output/formats.ts'
import type { Described } from '../../resources/resolve.ts'

const MEMBERS: Record<keyof Tenant, true> = {
  id: true,
  name: true,
  status: true,
  userCount: true,
  createdAt: true,
  updatedAt: true,
}

export const TENANTS: Described<Tenant> = {
  noun: 'tenant',
  command: 'tenants',
  path: '/api/admin/tenants',
  itemsKey: 'tenants',
  itemKey: 'tenant',
  isCalled: (tenant, name) => tenant.name === name,
  argument: 'name or id',
  view: {
    columns: columns({ NAME: flexible('name'), STATUS: 'status', USERS: 'userCount', CREATED: 'createdAt', ID: 'id' }),
    idPath: 'id',
    members: Object.keys(MEMBERS),
    none: 'No tenants found.',
  },
}
