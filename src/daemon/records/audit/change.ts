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
import type { EntryDraft } from '../evidence/entry-draft.ts'
import type { SigningKeys } from '../evidence/signing-keys.ts'

/** What a change was, for whoever reads the log. */
export type Activity = {
  /** named-endpoints §14 */
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
  resourceId: string
  /** Completes "External API: …", such as `created group "ops"`. Names, never secrets. */
  description: string
  severity?: 'warning'
  /** `authorization`, which is kept for ever, unless it says otherwise. */
  complianceCategory?: 'data_protection'
  /** The tenant whose log it goes to, where that is not the caller's. */
  tenantId?: string
  /** Further facts: which fields changed, to what. Never secrets. */
  metadata?: Record<string, unknown>
}

/** Whose request it is, and which: what decides whether it may change anything, and what an audit entry says of it. */
export type Actor = Pick<RequestContext, 'caller' | 'requestId' | 'endpoint' | 'access'>

export type ChangeDeps = {
  db: Db
  clock: Clock
  /** Sign the entry that each change leaves. */
  signingKeys: Pick<SigningKeys, 'currentIn'>
  /** Forgets what is cached of keys and their owners, so that a change of rights holds from the next request on. */
  forgetKeys(): void
  /** The caller as the store has it now. @throws UNAUTHORIZED when the key is not accepted any more */
  lookUpAgain(tx: Db, caller: Caller): Promise<Caller>
}

/** The transaction of a change, and who makes it, with the rights they have in it. What it records is written at its end. */
export type Change = { tx: Db; caller: Caller; record(...activities: Activity[]): Promise<void> }

/** Changes of these may change what a key stands for. */
const CHANGES_OF_KEYS: ReadonlySet<Activity['type']> = new Set([
  'user_management',
  'role_management',
  'key_management',
  'tenant_management',
])

/**
 * Runs one administrative change and its audit entry in one transaction: both are durable when it resolves, or neither.
 * From then on no request of this daemon sees what keys and users were before.
 *
 * Changes of one tenant run one after another, and each with the rights its caller has at that moment: between the start
 * of a request and the end of its body the key may have been revoked. `run` may be called twice, when the store took the
 * first transaction back.
 * @throws Error when `run` records nothing: a change that leaves no trace is a bug. UNAUTHORIZED,
 * INSUFFICIENT_PERMISSIONS. Whatever `run` throws.
 */
export async function change<T>(deps: ChangeDeps, actor: Actor, run: (change: Change) => Promise<T>): Promise<T> {
  let changesKeys = false
  let isCommitting = false

  const attempt = () =>
    deps.db.transaction().execute(async (tx) => {
      const caller = await currentCaller(tx, deps, actor)
      const drafts: EntryDraft[] = []
      const result = await run({
        tx,
        caller,
        async record(...activities) {
          changesKeys ||= activities.some(({ type }) => CHANGES_OF_KEYS.has(type))
          for (const activity of activities) drafts.push(toEntryDraft({ ...actor, caller }, activity, deps.clock.now()))
        },
      })
      if (drafts.length === 0) throw new Error(`${actor.endpoint} changed something without an audit entry`)
      // Last, so that all entries of a change have one signature, and a chain is held for no longer than it has to be.
      const chains = { keys: deps.signingKeys, clock: deps.clock, lockedTenantId: actor.caller.tenantId }
      await appendChanges(tx, drafts, chains)
      isCommitting = true
      return result
    })

  try {
    return await attempt().catch((error: unknown) => {
      // A commit whose answer was lost may have happened, and must not happen twice.
      const mayRepeat = !isCommitting && !(error instanceof GatewayError)
      if (mayRepeat && engineOf(deps.db).failureOf(error) === 'transient') return attempt()
      throw error
    })
  } finally {
    // Also after a failure, for the same reason.
    if (changesKeys) deps.forgetKeys()
  }
}

/** @throws UNAUTHORIZED, INSUFFICIENT_PERMISSIONS */
async function currentCaller(tx: Db, deps: ChangeDeps, actor: Actor): Promise<Caller> {
  await lockTenant(tx, actor.caller.tenantId)
  const caller = await deps.lookUpAgain(tx, actor.caller)
  // Changes are never made by GET.
  requireAccess(caller, actor.access, 'POST')
  return caller
}

/**
 * What the log keeps of an activity: for those that have no transaction of their own, such as what a chat request did. Whoever
 * acts in the log of another tenant is only called an operator there.
 */
export function toEntryDraft(
  { caller, requestId, endpoint }: Omit<Actor, 'access'>,
  activity: Activity,
  nowMs: number,
): EntryDraft {
  const tenantId = activity.tenantId ?? caller.tenantId
  const isForeign = tenantId !== caller.tenantId
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
    actor: isForeign ? 'operator' : 'key',
    user_id: isForeign ? null : caller.userId,
    key_id: isForeign ? null : caller.keyId,
    resource_type: activity.resourceType,
    resource_id: activity.resourceId,
    // As JSON has it: a member that is undefined is none.
    metadata: JSON.parse(JSON.stringify(activity.metadata ?? {})),
  })
  return { id: newId(nowMs), tenantId, createdAtMs: nowMs, payload }
}
