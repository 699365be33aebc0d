import type { KeySettings } from '../../../../src/shared/wire/keys.ts'
import { addKey } from '../../../accounts.ts'
import { billsOf } from '../../../bills.ts'
import type { CallOptions, Gateway } from '../../../harness.ts'
import { addTestTenant } from '../../../tenant-admin.ts'

/** A tenant with this active policy, and the actions of one of its keys. */
export async function addGuardedTenant(
  gateway: Gateway,
  { policy = {}, settings = {} }: { policy?: object; settings?: Partial<KeySettings> } = {},
) {
  const tenant = await addTestTenant(gateway)
  const made = await tenant.call('POST', '/api/external/smltp-policies', {
    name: 'Ours',
    description: '',
    policy,
    setAsActive: true,
  })
  if (made.status !== 201) throw new Error(made.text)
  const { secret: key, row } = await addKey(tenant.db, tenant.admin, { settings })
  const asKey = (options: CallOptions = {}) => ({ ...options, key })
  return {
    tenant,
    key,
    keyId: row.id,
    post: (path: string, body: object, options?: CallOptions) => gateway.call('POST', path, body, asKey(options)),
    chat: (body: Record<string, unknown>, options?: CallOptions) => gateway.chat(body, asKey(options)),
    stream: (body: Record<string, unknown>, options?: CallOptions) => gateway.stream(body, asKey(options)),
    incidents: () =>
      tenant.db.selectFrom('incidents').selectAll().where('tenant_id', '=', tenant.id).orderBy('id').execute(),
    events: async () =>
      (
        await tenant.db
          .selectFrom('outbox_events')
          .selectAll()
          .where('tenant_id', '=', tenant.id)
          .orderBy('id')
          .execute()
      ).map(({ type, data }) => ({ type, data: JSON.parse(data) })),
    bills: async () => (await billsOf(tenant.db)).filter(({ tenant_id }) => tenant_id === tenant.id),
  }
}
