import { sealSettings } from '../../../src/daemon/control/provider-store.ts'
import type { Db } from '../../../src/daemon/platform/db/db.ts'
import { toSearchText } from '../../../src/daemon/platform/db/list-page.ts'
import { createMasterKey } from '../../../src/daemon/platform/secrets/seal.ts'
import { newDelivery } from '../../../src/daemon/webhooks/delivery.ts'
import { logId } from '../../../src/shared/evidence/entry.ts'
import { newId } from '../../../src/shared/ids.ts'
import { addKey, addRole, addTenant, addUser } from '../../accounts.ts'
import { addCheckpoint, addEntries, changePayload, newRequestChain, requestPayload } from '../../evidence-rows.ts'
import { incidentRow } from '../../incident-rows.ts'
import { endpointRow, TEST_MASTER_KEY } from '../../webhook-rows.ts'

const CREATED = '2026-01-01T00:00:00.000Z'

/**
 * One tenant with one of each resource. All its texts contain its `mark`, so that tests can detect them in responses to
 * another tenant.
 */
export type World = { mark: string; tenantId: string } & Known

/** Resources that a request may refer to, apart from those in its path. */
export type Known = { userId: string; roleId: string; groupId: string; indexName: string; webhookId: string }

/** Ids and a name that do not exist. */
export const nothing = (): Known => ({
  userId: newId(),
  roleId: newId(),
  groupId: newId(),
  indexName: `nothing-${count++}`,
  webhookId: newId(),
})

let count = 0

/** A new name that is also valid as a username, role name and index name. */
export const freshName = ({ mark }: Pick<World, 'mark'>): string => `${mark}-${count++}`

/** Fills this tenant, or creates and fills a new one. */
export async function addWorld(db: Db, mark: string, tenantId?: string): Promise<World> {
  const id = tenantId ?? (await addTenant(db, { name: mark })).id
  const bare = { mark, tenantId: id }
  const userId = await addTarget.user(db, bare)
  const roleId = await addTarget.role(db, bare)
  const indexName = await addTarget.index(db, bare)
  const groupId = await addTarget.group(db, bare)
  await addTarget.key(db, bare)
  const webhookId = await addTarget.webhook(db, bare)
  await addTarget.delivery(db, bare)
  await addTarget.budget(db, bare)
  await addTarget.incident(db, bare)
  await addTarget.receipt(db, bare)
  // A recent entry, so that an export that skips it can still be signed.
  const change = changePayload({ description: `External API: created group "${mark}"` })
  await addEntries(db, id, 'changes', [{ payload: change, id: newId() }])
  await addTarget.policy(db, bare)
  await addTarget.shieldPolicy(db, bare)
  await addTarget.guardRule(db, bare)
  return { ...bare, userId, roleId, groupId, indexName, webhookId }
}

/** Functions that create one more resource of a kind. Each returns its identifier in a path. */
export const addTarget = {
  async user(db: Db, { tenantId, mark }: Pick<World, 'tenantId' | 'mark'>): Promise<string> {
    const name = freshName({ mark })
    const email = `${name}@example.com`
    const search_text = toSearchText(name, email, name)
    const row = { tenant_id: tenantId, name, email, username: name, role: 'user' as const, search_text }
    return (await addUser(db, row)).id
  },

  async role(db: Db, { tenantId, mark }: Pick<World, 'tenantId' | 'mark'>): Promise<string> {
    const texts = { name: freshName({ mark }), display_name: `${mark} role`, description: `${mark} role` }
    return (await addRole(db, { tenant_id: tenantId, ...texts })).id
  },

  async group(db: Db, { tenantId, mark }: Pick<World, 'tenantId' | 'mark'>): Promise<string> {
    const id = newId()
    const name = freshName({ mark })
    const description = `${mark} group`
    const member = await addTarget.user(db, { tenantId, mark })
    await db
      .insertInto('groups')
      .values({
        id,
        tenant_id: tenantId,
        name,
        description,
        status: 'Active',
        user_count: 1,
        search_text: toSearchText(name, description),
        created_at: CREATED,
        updated_at: CREATED,
      })
      .execute()
    await db.insertInto('group_members').values({ tenant_id: tenantId, group_id: id, user_id: member }).execute()
    return id
  },

  async key(db: Db, { tenantId, mark }: Pick<World, 'tenantId' | 'mark'>): Promise<string> {
    const owner = await addTarget.user(db, { tenantId, mark })
    const { row } = await addKey(db, { tenant_id: tenantId, id: owner }, { name: freshName({ mark }) })
    return row.id
  },

  async provider(db: Db, { mark }: Pick<World, 'mark'>): Promise<string> {
    const name = freshName({ mark })
    const settings = { base_url: 'http://127.0.0.1:61999/v1', models: ['small'] }
    const sealed = sealSettings(createMasterKey(TEST_MASTER_KEY), name, settings)
    await db.insertInto('stored_providers').values({ name, sealed, created_at: CREATED, updated_at: CREATED }).execute()
    return name
  },

  async loss(db: Db, { mark }: Pick<World, 'mark'>): Promise<string> {
    const row = { id: freshName({ mark }), cause: 'key_missing' as const, tenant_id: null, chain: null }
    const detail = 'A key is missing.'
    await db
      .insertInto('evidence_losses')
      .values({ ...row, successor: null, detail, found_at: CREATED, acknowledged_at: null })
      .execute()
    return row.id
  },

  async index(db: Db, world: Pick<World, 'tenantId' | 'mark'>): Promise<string> {
    return (await addIndex(db, world)).name
  },

  async indexById(db: Db, world: Pick<World, 'tenantId' | 'mark'>): Promise<string> {
    return (await addIndex(db, world)).id
  },

  async document(db: Db, world: Pick<World, 'tenantId' | 'mark'>): Promise<string> {
    const index = await addIndex(db, world)
    const id = newId()
    await db
      .insertInto('documents')
      .values({
        id,
        tenant_id: world.tenantId,
        index_id: index.id,
        source: `${world.mark}.md`,
        title: world.mark,
        content_hash: 'h',
        passage_count: 0,
        state: 'published',
        created_at: CREATED,
        first_passage_id: null,
        in_shared_segment: 0,
      })
      .execute()
    return `${index.name}/documents/${id}`
  },

  async webhook(db: Db, { tenantId, mark }: Pick<World, 'tenantId' | 'mark'>): Promise<string> {
    const url = `http://127.0.0.1:61999/${mark}`
    // Requests of these tests cause no such event, so nothing is delivered to it.
    const events = '["dlp:incident"]'
    const row = endpointRow({ tenant_id: tenantId, url, events, description: `${mark} webhook` })
    await db.insertInto('webhook_endpoints').values(row).execute()
    return row.id
  },

  async budget(db: Db, { tenantId, mark }: Pick<World, 'tenantId' | 'mark'>): Promise<string> {
    const row = {
      ...{ id: newId(), tenant_id: tenantId, scope: 'tag' as const, subject: freshName({ mark }) },
      ...{ limit_nanos: 5_000_000_000, created_at: CREATED, updated_at: CREATED },
    }
    await db.insertInto('budgets').values(row).execute()
    return row.id
  },

  async delivery(db: Db, { tenantId, mark }: Pick<World, 'tenantId' | 'mark'>): Promise<string> {
    const endpointId = await addTarget.webhook(db, { tenantId, mark })
    const now = Date.parse(CREATED)
    const event = {
      id: `evt_${newId()}`,
      tenant_id: tenantId,
      type: 'pii:incident',
      created_at: CREATED,
      data: JSON.stringify({ incidentId: mark }),
      fanned_out_at: CREATED,
    }
    await db.insertInto('outbox_events').values(event).execute()
    const delivery = { ...newDelivery(event, endpointId, now), state: 'failed' as const, last_response: mark }
    await db.insertInto('webhook_deliveries').values(delivery).execute()
    return delivery.id
  },

  async incident(db: Db, { tenantId, mark }: Pick<World, 'tenantId' | 'mark'>): Promise<string> {
    const row = incidentRow({ tenant_id: tenantId, rule_name: mark, created_at: CREATED })
    await db.insertInto('incidents').values(row).execute()
    return row.id
  },

  /** Adds a recorded request. Returns its bundle id. */
  async receipt(db: Db, { tenantId, mark }: Pick<World, 'tenantId' | 'mark'>): Promise<string> {
    const payload = requestPayload({ index: mark })
    const [row] = await addEntries(db, tenantId, newRequestChain(), [{ payload }])
    return row?.id ?? ''
  },

  /** A receipt whose entry a checkpoint covers. */
  async coveredReceipt(db: Db, { tenantId, mark }: Pick<World, 'tenantId' | 'mark'>): Promise<string> {
    const chain = newRequestChain()
    const [row] = await addEntries(db, tenantId, chain, [{ payload: requestPayload({ index: mark }) }])
    if (row) await addCheckpoint(db, row)
    return row?.id ?? ''
  },

  /** A tile of a log, below the prefix of its tiles. */
  async log(db: Db, { tenantId, mark }: Pick<World, 'tenantId' | 'mark'>): Promise<string> {
    const chain = newRequestChain()
    const [row] = await addEntries(db, tenantId, chain, [{ payload: requestPayload({ index: mark }) }])
    if (row) await addCheckpoint(db, row)
    return `${logId(tenantId, chain)}/tile/0/000.p/1`
  },

  /** A stored answer of a user who owns no key. */
  async response(db: Db, world: Pick<World, 'tenantId' | 'mark'>): Promise<string> {
    const id = `resp_${newId()}`
    const user_id = await addTarget.user(db, world)
    const row = { tenant_id: world.tenantId, id, user_id, created_at: CREATED, expires_at: '2999-01-01T00:00:00.000Z' }
    await db
      .insertInto('stored_responses')
      .values({ ...row, sealed: world.mark })
      .execute()
    return id
  },

  async chain(db: Db, { tenantId, mark }: Pick<World, 'tenantId' | 'mark'>): Promise<string> {
    const chain = newRequestChain()
    await addEntries(db, tenantId, chain, [{ payload: requestPayload({ index: mark }) }])
    return chain
  },

  async shieldPolicy(db: Db, { tenantId, mark }: Pick<World, 'tenantId' | 'mark'>): Promise<string> {
    const id = freshName({ mark })
    const times = { created_at: CREATED, updated_at: CREATED }
    const row = { tenant_id: tenantId, id, name: id, description: mark, document: '{}', ...times }
    await db.insertInto('shield_policies').values(row).execute()
    return id
  },

  async guardRule(db: Db, { tenantId, mark }: Pick<World, 'tenantId' | 'mark'>): Promise<string> {
    const id = freshName({ mark })
    // The words do not occur in the passages. Otherwise findings would cause events at unpredictable times.
    const document = JSON.stringify({ kind: 'dlp', detector: 'keywords', words: [`rule of ${mark}`] })
    const row = { tenant_id: tenantId, id, name: id, document, created_at: CREATED, updated_at: CREATED }
    await db.insertInto('guard_rules').values(row).execute()
    return id
  },

  async policy(db: Db, { tenantId, mark }: Pick<World, 'tenantId' | 'mark'>): Promise<string> {
    const id = freshName({ mark })
    const times = { created_at: CREATED, updated_at: CREATED }
    const row = { tenant_id: tenantId, id, name: id, description: mark, document: '{}', ...times }
    await db.insertInto('smltp_policies').values(row).execute()
    return id
  },

  async tenant(db: Db, { mark }: Pick<World, 'mark'>): Promise<string> {
    return (await addTenant(db, { name: freshName({ mark }) })).id
  },
}

async function addIndex(db: Db, { tenantId, mark }: Pick<World, 'tenantId' | 'mark'>) {
  const times = { created_at: CREATED, updated_at: CREATED }
  const name = freshName({ mark })
  const row = {
    id: newId(),
    tenant_id: tenantId,
    name,
    description: `${mark} index`,
    created_by: newId(),
    ...times,
    index_access: 'write' as const,
  }
  await db.insertInto('indexes').values(row).execute()
  return row
}
