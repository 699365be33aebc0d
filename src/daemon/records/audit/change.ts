import { toCanonicalJson } from '../../../shared/canonical-json.ts'
import { GatewayError } from '../../../shared/errors.ts'
import { newId } from '../../../shared/ids.ts'
import { type Clock, isoTime } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import { engineOf } from '../../platform/db/engine.ts'
import { lockTenant } from '../../platform/db/tenant-lock.ts'
import { requireAccess } from '../../platform/http/access.ts'
import type { Caller } from '../../platform/http/caller.ts'
import type { RequestContext } from '../../platform/http/route.ts'
import { appendChanges } from '../evidence/change-entry.ts'
import type { SigningKeys } from '../evidence/signing-keys.ts'
import { type EntryDraft, saveCounters } from '../ledger/records.ts'

/** One administrative change, as described in the audit log. */
export type Activity = {
  /** The `type` of the log entry. */
  type:
    | 'user_management'
    | 'group_management'
    | 'role_management'
    | 'key_management'
    | 'tenant_management'
    | 'index_management'
    | 'webhook_management'
    | 'smltp_policy_management'
    | 'shield_policy_management'
    | 'guard_rule_management'
    | 'evidence_management'
    | 'cache_management'
    | 'configuration_management'
    | 'budget_management'
    | 'api_access'
  /** `create`, `update`, `delete`, `revoke` … */
  operation: string
  resourceType:
    | 'user'
    | 'group'
    | 'role'
    | 'api_key'
    | 'tenant'
    | 'index'
    | 'model'
    | 'webhook'
    | 'smltp_policy'
    | 'shield_policy'
    | 'guard_rule'
    | 'evidence_log'
    | 'evidence_export'
    | 'signing_key'
    | 'master_key'
    | 'answer_cache'
    | 'configuration'
    | 'provider'
    | 'budget'
  resourceId: string
  /** The text after "External API: ", such as `created group "ops"`. This text contains names but never secrets. */
  description: string
  severity?: 'warning'
  /** Default: `authorization`. Entries of this type are never expunged. */
  complianceCategory?: 'data_protection'
  /** The tenant in whose log the entry is written. Defaults to the caller's tenant. */
  tenantId?: string
  /** Further facts about the change, such as changed fields and their values. Must not contain secrets. */
  metadata?: Record<string, unknown>
}

/**
 * The caller and the request of a change. Both determine whether the change is allowed, and both are recorded in the
 * audit entry.
 */
export type Actor = Pick<RequestContext, 'caller' | 'requestId' | 'endpoint' | 'access'> &
  Partial<Pick<RequestContext, 'unstoredCounters' | 'countersStored'>>

export type ChangeDeps = {
  db: Db
  clock: Clock
  /** Signs the entries of each change. */
  signingKeys: Pick<SigningKeys, 'currentIn'>
  /**
   * Invalidates the cached keys, budgets and members of groups of this tenant, so that changed rights apply from the next
   * request on.
   */
  forgetKeys(tenantId: string): void
  /** Reads the caller from the store again. @throws UNAUTHORIZED if the key is no longer accepted */
  lookUpAgain(tx: Db, caller: Caller): Promise<Caller>
}

/**
 * The transaction of a change, and the caller with up-to-date rights. The activities that are passed to `record` are
 * written at the end of the transaction.
 */
export type Change = { tx: Db; caller: Caller; record(...activities: Activity[]): Promise<void> }

/** The types of changes that may affect the rights of a key, or the groups of its owner. */
const CHANGES_OF_KEYS: ReadonlySet<Activity['type']> = new Set([
  'user_management',
  'role_management',
  'key_management',
  'tenant_management',
  'group_management',
  'budget_management',
])

/**
 * Runs one administrative change and writes its audit entries in the same transaction. Either both the change and its
 * entries become durable, or neither. Once `change` resolves, keys and users that this daemon cached before the change
 * are no longer used.
 *
 * Changes of one tenant are serialised. Each change checks the caller's rights again, because the key may have been
 * revoked while the request body was read. `run` may be called twice if the store rolled back the first transaction.
 * @throws Error if `run` records no activity, because every change needs an audit entry. UNAUTHORIZED,
 * INSUFFICIENT_PERMISSIONS. Errors of `run`.
 */
export async function change<T>(deps: ChangeDeps, actor: Actor, run: (change: Change) => Promise<T>): Promise<T> {
  const tenantsWithChangedKeys = new Set<string>()
  let isCommitting = false

  const attempt = () =>
    deps.db.transaction().execute(async (tx) => {
      const caller = await currentCaller(tx, deps, actor)
      const drafts: EntryDraft[] = []
      const result = await run({
        tx,
        caller,
        async record(...activities) {
          for (const { type, tenantId = caller.tenantId } of activities) {
            if (CHANGES_OF_KEYS.has(type)) tenantsWithChangedKeys.add(tenantId)
          }
          for (const activity of activities) drafts.push(toEntryDraft({ ...actor, caller }, activity, deps.clock.now()))
        },
      })
      if (drafts.length === 0) throw new Error(`${actor.endpoint} changed something without an audit entry`)
      // Write the audit entries last, so that they share one signature and the chain is locked only briefly.
      const chains = { keys: deps.signingKeys, clock: deps.clock, lockedTenantId: actor.caller.tenantId }
      await appendChanges(tx, drafts, chains)
      // Write the key's counters in this transaction too, so that they need no separate transaction.
      const counters = actor.unstoredCounters?.() ?? []
      if (counters.length > 0) await saveCounters(tx, counters)
      isCommitting = true
      return result
    })

  try {
    const result = await attempt().catch((error: unknown) => {
      // If COMMIT fails, the transaction may have been committed, so it must not be repeated.
      const mayRepeat = !isCommitting && !(error instanceof GatewayError)
      if (mayRepeat && engineOf(deps.db).failureOf(error) === 'transient') return attempt()
      throw error
    })
    actor.countersStored?.()
    return result
  } finally {
    // Keys are also invalidated after a failure, because the COMMIT may have succeeded.
    for (const tenantId of tenantsWithChangedKeys) deps.forgetKeys(tenantId)
  }
}

/**
 * Writes the entry of a change that the operator makes on the machine itself, such as by a signal. No key is involved.
 * @param origin the tenant of the operator, and what the entry names as its endpoint
 */
export async function recordLocalChange(
  { db, clock, signingKeys: keys }: Pick<ChangeDeps, 'db' | 'clock' | 'signingKeys'>,
  { tenantId, endpoint }: { tenantId: string; endpoint: string },
  activity: Activity,
): Promise<void> {
  const nowMs = clock.now()
  const by: EntryOrigin = { tenantId, requestId: newId(nowMs), endpoint, actor: 'operator', userId: null, keyId: null }
  await db.transaction().execute(async (tx) => {
    await lockTenant(tx, tenantId)
    await appendChanges(tx, [entryOf(by, activity, nowMs)], { keys, clock, lockedTenantId: tenantId })
  })
}

/** @throws UNAUTHORIZED, INSUFFICIENT_PERMISSIONS */
async function currentCaller(tx: Db, deps: ChangeDeps, actor: Actor): Promise<Caller> {
  await lockTenant(tx, actor.caller.tenantId)
  const caller = await deps.lookUpAgain(tx, actor.caller)
  // Every change requires the access that a POST requires. A GET may require less access, because it only reads.
  requireAccess(caller, actor.access, 'POST')
  return caller
}

/**
 * Returns the log entry of an activity. Call this directly for activities without a transaction, such as the activities
 * of a chat request. In the log of another tenant, the caller is recorded only as an operator.
 */
export function toEntryDraft(
  { caller, requestId, endpoint }: Pick<Actor, 'caller' | 'requestId' | 'endpoint'>,
  activity: Activity,
  nowMs: number,
): EntryDraft {
  const tenantId = activity.tenantId ?? caller.tenantId
  const by =
    tenantId === caller.tenantId
      ? ({ actor: 'key', userId: caller.userId, keyId: caller.keyId } as const)
      : ({ actor: 'operator', userId: null, keyId: null } as const)
  return entryOf({ ...by, tenantId, requestId, endpoint }, activity, nowMs)
}

/** Who made a change, and the tenant in whose log it is written. */
type EntryOrigin = {
  tenantId: string
  requestId: string
  endpoint: string
  actor: 'key' | 'operator'
  userId: string | null
  keyId: string | null
}

function entryOf(
  { tenantId, requestId, endpoint, actor, userId, keyId }: EntryOrigin,
  activity: Activity,
  nowMs: number,
): EntryDraft {
  const payload = toCanonicalJson({
    version: 1,
    kind: 'change',
    issued_at: isoTime(nowMs),
    type: activity.type,
    operation: activity.operation,
    severity: activity.severity ?? 'info',
    result: 'success',
    compliance_category: activity.complianceCategory ?? 'authorization',
    description: `External API: ${activity.description}`,
    request_id: requestId,
    endpoint,
    actor,
    user_id: userId,
    key_id: keyId,
    resource_type: activity.resourceType,
    resource_id: activity.resourceId,
    // A JSON round trip removes undefined properties.
    metadata: JSON.parse(JSON.stringify(activity.metadata ?? {})),
  })
  return { id: newId(nowMs), tenantId, createdAtMs: nowMs, payload }
}
