import { isoTime } from '../../../shared/time.ts'
import type { FailoverAttempt } from '../../../shared/wire/chat.ts'
import type { OutboxEventRow } from '../../platform/db/tables.ts'
import { type Actor, toEntryDraft } from '../../records/audit/change.ts'
import { modelFailover } from '../../records/events/events.ts'
import type { EntryDraft } from '../../records/ledger/records.ts'

/**
 * Returns each failover from a failed model to the next model, oldest first. Retries of the same model do not count.
 */
function failoversOf(attempts: readonly FailoverAttempt[]): { failed: FailoverAttempt; next: string }[] {
  return attempts.flatMap((failed, at) => {
    const next = attempts[at + 1]?.model
    return next === undefined || next === failed.model ? [] : [{ failed, next }]
  })
}

/** Returns an event and an audit entry for each failover of a request. */
export function failoverRecords(
  attempts: readonly FailoverAttempt[],
  actor: Pick<Actor, 'caller' | 'requestId' | 'endpoint'>,
  nowMs: number,
): Failovers {
  if (attempts.length < 2) return NO_FAILOVERS
  const { caller, requestId } = actor
  const events: OutboxEventRow[] = []
  const evidence: EntryDraft[] = []
  for (const [step, { failed, next }] of failoversOf(attempts).entries()) {
    const facts = {
      failedModel: failed.model,
      reason: failed.reason ?? 'internal_error',
      nextModel: next,
      latencyMs: failed.latency_ms,
    }
    const { tenantId, userId, keyId: apiKeyId } = caller
    events.push(modelFailover({ tenantId, createdAt: isoTime(nowMs), requestId, step }, { ...facts, userId, apiKeyId }))
    const activity = {
      type: 'api_access',
      operation: 'model_failover',
      resourceType: 'model',
      resourceId: failed.model,
      description: `failed over from "${failed.model}" to "${next}" (${facts.reason})`,
      severity: 'warning',
      // The entry is deleted together with the receipt, because it only repeats facts of the receipt and records no
      // change of rights.
      complianceCategory: 'data_protection',
      metadata: facts,
    } as const
    evidence.push(toEntryDraft(actor, activity, nowMs))
  }
  return { events, evidence }
}

type Failovers = { events: readonly OutboxEventRow[]; evidence: readonly EntryDraft[] }

const NO_FAILOVERS: Failovers = { events: [], evidence: [] }
