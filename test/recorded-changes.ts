import type { Db } from '../src/daemon/platform/db/db.ts'

/** An audit entry of a change: its payload and its position in the chain. */
export type RecordedChange = {
  id: string
  tenant_id: string
  created_at: string
  type: string
  operation: string
  severity: string
  result: string
  description: string
  request_id: string
  endpoint: string
  actor: string
  user_id: string | null
  key_id: string | null
  resource_type: string
  resource_id: string
  metadata: Record<string, unknown>
}

/** The recorded changes of one tenant or of all tenants, in the order of the ids. */
export async function recordedChanges(db: Db, tenantId?: string): Promise<RecordedChange[]> {
  let query = db.selectFrom('evidence_entries').select(['id', 'tenant_id', 'created_at', 'payload']).orderBy('id')
  if (tenantId !== undefined) query = query.where('tenant_id', '=', tenantId)
  const changes: RecordedChange[] = []
  for (const { payload, ...row } of await query.execute()) {
    const content = JSON.parse(payload ?? '{}') as RecordedChange & { kind: string }
    if (content.kind === 'change') changes.push({ ...content, ...row })
  }
  return changes
}
