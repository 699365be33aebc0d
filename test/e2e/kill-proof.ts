// Compares the store after many kills with the requests that clients sent, and with the events that arrived.
import { expect } from 'vitest'
import type { Db } from '../../src/daemon/platform/db/db.ts'
import { modelFailover } from '../../src/daemon/records/events/events.ts'
import { payloadOf } from '../../src/daemon/records/evidence/entry-payload.ts'
import type { Received as Post } from '../daemon/webhooks/receiver.ts'
import type { Acknowledged, Sent } from './kill-load.ts'

type Receipt = {
  kind: string
  request_id: string
  bundle_id: string
  request_sha256: string
  result: string
  user_id: string
  issued_at: string
  cost: { points: number; nanos: number; period?: string } | null
  usage: { input_tokens: number; output_tokens: number } | null
}

export type Totals = { requests: number; inputTokens: number; outputTokens: number; points: number }

/** The receipts of the load, from the log. */
export async function loadReceipts(db: Db): Promise<Receipt[]> {
  const entries = await db.selectFrom('evidence_entries').select(['id', 'created_at', 'payload']).execute()
  const receipts = entries.map((entry) => payloadOf(entry) as unknown as Receipt)
  return receipts.filter(({ kind }) => kind === 'request')
}

/** The sums of all bills. */
export function totalsOf(receipts: readonly Receipt[]): Totals {
  const bills = receipts.filter(({ cost }) => cost)
  const sum = (of: (receipt: Receipt) => number | undefined) =>
    bills.reduce((total, bill) => total + (of(bill) ?? 0), 0)
  return {
    requests: bills.length,
    inputTokens: sum(({ usage }) => usage?.input_tokens),
    outputTokens: sum(({ usage }) => usage?.output_tokens),
    points: sum(({ cost }) => cost?.points),
  }
}

/** Each acknowledged request has exactly one receipt, each answer one bill, and no request has two. */
export function expectReceipts(
  receipts: readonly Receipt[],
  sent: readonly Sent[],
  got: readonly Acknowledged[],
): void {
  const byId = new Map(receipts.map((receipt) => [receipt.request_id, receipt]))
  expect(byId.size).toBe(receipts.length)
  const ids = got.map(({ text }) => requestIdOf(text))
  expect(new Set(ids).size).toBe(ids.length)
  const wrong = got.filter(({ text, bodySha256, kind }, at) => {
    const receipt = byId.get(String(ids[at]))
    const result = kind.status === 200 ? 'success' : 'denied'
    return !(
      receipt?.request_sha256 === bodySha256 &&
      receipt.result === result &&
      text.includes(receipt.bundle_id) &&
      (receipt.cost !== null) === (kind.status === 200)
    )
  })
  expect(wrong).toEqual([])
  // A rejection stores no answer for repeats, so a repeat of a lost rejection is rejected, and recorded, again.
  const answered = receipts.filter(({ result }) => result === 'success')
  expect(new Set(answered.map(({ request_sha256 }) => request_sha256)).size).toBe(answered.length)
  const known = new Set(sent.map(({ bodySha256 }) => bodySha256))
  expect(receipts.filter(({ request_sha256, result }) => !known.has(request_sha256) || result === 'failure')).toEqual(
    [],
  )
}

/** The spend counters of each account equal the sum of its bills. */
export async function expectSpend(db: Db, receipts: readonly Receipt[]): Promise<void> {
  const counters = await db
    .selectFrom('spend_counters')
    .select(['holder_id', 'period', 'points'])
    .where('holder', '=', 'user')
    .execute()
  const spent = new Map<string, number>()
  for (const { user_id, cost, issued_at } of receipts) {
    if (!cost) continue
    const name = `${user_id} ${cost.period ?? issued_at.slice(0, 7)}`
    spent.set(name, (spent.get(name) ?? 0) + cost.points)
  }
  expect(new Map(counters.map((row) => [`${row.holder_id} ${row.period}`, row.points]))).toEqual(spent)
}

/**
 * Each recorded request, acknowledged or not, has its incidents and its event. Returns the ids of all events, which
 * must arrive.
 */
export async function expectEvents(
  db: Db,
  receipts: readonly Receipt[],
  sent: readonly Sent[],
): Promise<readonly string[]> {
  const incidents = await db.selectFrom('incidents').select('request_id').execute()
  const outbox = await db.selectFrom('outbox_events').select(['id', 'tenant_id', 'type', 'data']).execute()
  const tenantId = String(outbox[0]?.tenant_id)
  const kinds = new Map(sent.map(({ bodySha256, kind }) => [bodySha256, kind]))
  const expected = receipts.map(({ request_id, request_sha256 }) => {
    const kind = kinds.get(request_sha256)
    return { request_id, incidents: kind?.incidents, events: kind?.event ? [kind.event] : [] }
  })
  const found = new Map(expected.map(({ request_id }) => [request_id, { incidents: 0, events: [] as string[] }]))
  for (const { request_id } of incidents) {
    const of = found.get(request_id)
    if (of) of.incidents += 1
  }
  // The data of a failover do not name the request, but its id is derived from it.
  const failovers = new Map(receipts.map(({ request_id }) => [failoverIdOf(tenantId, request_id), request_id]))
  for (const { id, type, data } of outbox) {
    found.get(failovers.get(id) ?? JSON.parse(data).requestId)?.events.push(type)
  }
  expect(expected.map(({ request_id }) => ({ request_id, ...found.get(request_id) }))).toEqual(expected)
  expect(incidents.length).toBe(expected.reduce((sum, { incidents: count = 0 }) => sum + count, 0))
  return outbox.map(({ id }) => id)
}

function failoverIdOf(tenantId: string, requestId: string): string {
  const none = { failedModel: '', reason: 'timeout', nextModel: '', latencyMs: 0, userId: '', apiKeyId: '' } as const
  return modelFailover({ tenantId, createdAt: '', requestId, step: 0 }, none).id
}

/** All posts of a delivery have the same body, and no event has two deliveries. */
export function expectDeliveries(posts: readonly Post[], eventIds: readonly string[]): void {
  const bodies = new Map<string, string>()
  for (const { headers, body } of posts) {
    const id = String(headers['x-service-delivery'])
    expect(body).toBe(bodies.get(id) ?? body)
    bodies.set(id, body)
  }
  const delivered = [...bodies.values()].map((body) => String(JSON.parse(body).id))
  expect(delivered.sort()).toEqual([...eventIds].sort())
}

/** The id of the request, from its answer, stream or error. */
export const requestIdOf = (text: string): string | undefined => /"(?:request_)?id":"(req-[^"]+)"/.exec(text)?.[1]
