import type { Tenant } from '../../../shared/wire/tenants.ts'

const MEMBERS: Record<keyof Tenant, true> = {
  id: true,
  name: true,
  status: true,
  userCount: true,
  createdAt: true,
  updatedAt: true,
}

export const TENANT_VIEW = {
  columns: [
    { path: 'name', flexible: true },
    { path: 'status' },
    { path: 'userCount', title: 'USERS' },
    { path: 'createdAt', title: 'CREATED' },
    { path: 'id' },
  ],
  idPath: 'id',
  members: Object.keys(MEMBERS),
  none: 'No tenants found.',
}

/** A new one comes with its first administrator and the key made for them. */
export const NEW_TENANT_VIEW = {
  ...TENANT_VIEW,
  columns: [
    ...TENANT_VIEW.columns,
    { path: 'admin.email', title: 'ADMINISTRATOR' },
    { path: 'apiKey.id', title: 'KEY' },
  ],
  members: [...TENANT_VIEW.members, 'admin', 'apiKey'],
}

export const TENANT_ARGUMENT = 'name or id'

const STATUSES: Record<Tenant['status'], true> = { Active: true, Disabled: true }
export const STATUS_CHOICES = Object.keys(STATUSES)
