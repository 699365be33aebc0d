import { sql } from 'kysely'
import type { Db } from '../../../src/daemon/platform/db/db.ts'
import type { Tables } from '../../../src/daemon/platform/db/tables.ts'

/** All tables. A new table that is missing here is a type error. */
export const TABLES = Object.keys({
  tenants: 0,
  users: 0,
  roles: 0,
  user_roles: 0,
  groups: 0,
  group_members: 0,
  api_keys: 0,
  smltp_policies: 0,
  smltp_active_policies: 0,
  rate_counters: 0,
  master_key_rotation: 0,
  evidence_entries: 0,
  evidence_commits: 0,
  evidence_checkpoints: 0,
  evidence_losses: 0,
  evidence_files: 0,
  evidence_unsigned: 0,
  evidence_cosignatures: 0,
  evidence_nodes: 0,
  evidence_keys: 0,
  log_positions: 0,
  log_blocks: 0,
  log_owners: 0,
  usage_days: 0,
  budgets: 0,
  provider_outages: 0,
  provider_messages: 0,
  outbox_events: 0,
  incidents: 0,
  stored_responses: 0,
  cache_entries: 0,
  shield_policies: 0,
  guard_rules: 0,
  webhook_endpoints: 0,
  webhook_deliveries: 0,
  master_key_check: 0,
  stored_providers: 0,
  store_probes: 0,
  spend_counters: 0,
  spend_reservations: 0,
  idempotency_results: 0,
  indexes: 0,
  documents: 0,
  passages: 0,
  segments: 0,
  postings: 0,
  embedding_models: 0,
  embedding_work: 0,
  index_vectors: 0,
  passage_vectors: 0,
} satisfies Record<keyof Tables, 0>)

export type Dumped = { table: string; row: Record<string, unknown> }

/** Tables that the daemon derives from the log a second later. */
export const SUMMARIES: ReadonlySet<string> = new Set(['log_positions', 'log_blocks', 'log_owners', 'usage_days'])

/** All rows of one tenant or of all tenants as text: `table {columns}`. Request counters and summaries are excluded. */
export async function dumpStore(
  db: Db,
  { tenantId, counters = false }: { tenantId?: string; counters?: boolean } = {},
): Promise<string[]> {
  const dump: string[] = []
  for (const table of TABLES) {
    if ((table === 'rate_counters' && !counters) || SUMMARIES.has(table)) continue
    const { rows } = await sql<Record<string, unknown>>`select * from ${sql.table(table)}`.execute(db)
    for (const row of rows) {
      const owner = table === 'tenants' ? row.id : row.tenant_id
      if (tenantId === undefined || owner === tenantId) dump.push(`${table} ${JSON.stringify(settled(table, row))}`)
    }
  }
  return dump.sort()
}

/** The row without the columns that the dispatcher writes at any time. */
function settled(table: string, row: Record<string, unknown>): Record<string, unknown> {
  const hidden = table === 'webhook_deliveries' && !isInHand.row(row) ? [] : (HIDDEN_COLUMNS[table] ?? [])
  return Object.fromEntries(Object.entries(row).filter(([column]) => !hidden.includes(column)))
}

/** Columns that the dispatcher writes. In deliveries they are hidden only if a delivery is or was claimed. */
export const HIDDEN_COLUMNS: Readonly<Record<string, readonly string[]>> = {
  webhook_endpoints: ['failure_count', 'last_delivery_at', 'last_status'],
  outbox_events: ['fanned_out_at'],
  webhook_deliveries: [
    ...['state', 'due_at', 'attempts', 'lease_owner', 'lease_until', 'fence', 'delivered_at'],
    ...['last_status', 'last_error', 'last_duration_ms', 'last_response'],
  ],
}

/** Whether a delivery is claimed: for a row that was read, and as SQL for the new row of a trigger. */
export const isInHand = {
  row: (row: Record<string, unknown>): boolean => row.state === 'pending' || row.fence !== 0,
  sql: "new.state = 'pending' or new.fence <> 0",
}

/** The rows that one change removed and added. */
export function difference(before: readonly string[], after: readonly string[]): { gone: string[]; come: string[] } {
  const had = new Set(before)
  const has = new Set(after)
  return { gone: before.filter((row) => !has.has(row)), come: after.filter((row) => !had.has(row)) }
}
