import type { z } from 'zod'
import { GatewayError, invalidField } from '../../../shared/errors.ts'
import { toPolicyId } from '../../../shared/policy-id.ts'
import { isoTime } from '../../../shared/time.ts'
import {
  type CreatePolicyRequest,
  POLICY_READ_ONLY,
  type PolicyDocument,
  type UpdatePolicyRequest,
} from '../../../shared/wire/policies.ts'
import type { Db } from '../../platform/db/db.ts'
import { requireUnlike } from '../../platform/db/distinct-name.ts'
import { changesIn } from '../../platform/http/read-only.ts'
import { type Activity, type Actor, type Change, type ChangeDeps, change } from '../../records/audit/change.ts'
import { BUILT_IN_SHIELD_POLICIES } from '../prompt-shield/built-in.ts'
import { findShieldPolicy } from '../prompt-shield/store.ts'
import { BUILT_IN_POLICIES, findBuiltIn, SYSTEM_DEFAULT } from './built-in.ts'
import type { PolicyCatalogue } from './policies.ts'
import { type NamedPolicy, policyHash } from './policies.ts'
import {
  deletePolicy,
  findActivation,
  findKeysNaming,
  findPolicyRow,
  insertPolicy,
  listPolicies,
  nameExists,
  type PolicyRow,
  setActivation,
  toNamedPolicy,
  updatePolicy,
} from './store.ts'

/** Maximum number of custom policies of one tenant. There is a limit, because the list is not paginated. */
export const CUSTOM_POLICIES = 200

export type PolicyChangeDeps = ChangeDeps & { policies: PolicyCatalogue }

/** A policy, and whether it is the tenant's active policy. */
export type ShownPolicy = { policy: NamedPolicy; isActive: boolean }

/** The maximum number of key names in an error. All other keys are only counted. */
const KEYS_NAMED = 5

/**
 * @throws POLICY_NAME_EXISTS. VALIDATION_ERROR if the tenant already has CUSTOM_POLICIES custom policies, or if the
 * document requires what it cannot enforce
 */
export function createPolicy(
  deps: PolicyChangeDeps,
  actor: Actor,
  { name, description, policy: document, setAsActive = false }: z.output<typeof CreatePolicyRequest>,
): Promise<ShownPolicy> {
  const id = toPolicyId(name)
  if (findBuiltIn(id)) throw nameExists({ id, name })
  return changePolicies(deps, actor, async ({ tx, caller: { tenantId }, record }) => {
    const now = isoTime(deps.clock.now())
    const others = await listPolicies(tx, tenantId)
    requireUnlike('name', name, [...BUILT_IN_POLICIES, ...others])
    if (others.length >= CUSTOM_POLICIES) {
      throw new GatewayError(
        'VALIDATION_ERROR',
        `A tenant may have at most ${CUSTOM_POLICIES} custom policies. Delete one first.`,
      )
    }
    await requireEffective(tx, tenantId, document)
    const times = { created_at: now, updated_at: now }
    const row = { tenant_id: tenantId, id, name, description, document: JSON.stringify(document), ...times }
    await insertPolicy(tx, row)
    if (setAsActive) await setActivation(tx, tenantId, { policy_id: id, activated_at: now })
    await record({ ...activityOn(row, 'create'), metadata: { ...factsOf(row), setAsActive, document } })
    return { policy: toNamedPolicy(row), isActive: setAsActive }
  })
}

/**
 * Applies the request's changes.
 * @throws POLICY_NOT_FOUND, INSUFFICIENT_PERMISSIONS for a built-in policy, VALIDATION_ERROR for a document that requires
 * what it cannot enforce
 */
export function changePolicy(
  deps: PolicyChangeDeps,
  actor: Actor,
  nameOrId: string,
  request: z.output<typeof UpdatePolicyRequest>,
): Promise<ShownPolicy> {
  return changePolicies(deps, actor, async ({ tx, caller: { tenantId }, record }) => {
    const before = await getOwnPolicy(tx, tenantId, nameOrId)
    const isActive = (await activePolicyId(tx, tenantId)) === before.id
    const shown = { ...toNamedPolicy(before), isActive }
    const { description, policy: document } = changesIn(request, POLICY_READ_ONLY, {
      ...shown,
      policyHash: shown.hash,
    })
    if (document !== undefined) await requireEffective(tx, tenantId, document)
    const after = {
      ...before,
      ...(description !== undefined && { description }),
      ...(document !== undefined && { document: JSON.stringify(document) }),
      updated_at: isoTime(deps.clock.now()),
    }
    await updatePolicy(tx, after)
    // Fields that were not sent are undefined, so the JSON of the audit entry omits these fields.
    await record({ ...activityOn(after, 'update'), metadata: { ...factsOf(after), description, document } })
    return { policy: toNamedPolicy(after), isActive }
  })
}

/**
 * Deletes a policy that is not active and to which no key refers.
 * @throws POLICY_NOT_FOUND, INSUFFICIENT_PERMISSIONS for a built-in policy, POLICY_IN_USE for the active policy and for
 * a policy that keys use
 */
export function removePolicy(deps: PolicyChangeDeps, actor: Actor, nameOrId: string): Promise<void> {
  return changePolicies(deps, actor, async ({ tx, caller: { tenantId }, record }) => {
    const row = await getOwnPolicy(tx, tenantId, nameOrId)
    if ((await activePolicyId(tx, tenantId)) === row.id) {
      throw new GatewayError(
        'POLICY_IN_USE',
        `"${row.id}" is the active policy of this tenant. Activate another one first, such as "${SYSTEM_DEFAULT}".`,
      )
    }
    const keys = await findKeysNaming(tx, tenantId, row.id)
    if (keys.length > 0) {
      const named = keys.slice(0, KEYS_NAMED).map((name) => `"${name}"`)
      const more = keys.length > KEYS_NAMED ? ` and ${keys.length - KEYS_NAMED} more` : ''
      throw new GatewayError(
        'POLICY_IN_USE',
        `Keys use the policy "${row.id}": ${named.join(', ')}${more}. Remove it from their allowedSMLTPPolicies and ` +
          'defaultSMLTPPolicy first.',
      )
    }
    await deletePolicy(tx, tenantId, row.id)
    await record({ ...activityOn(row, 'delete'), metadata: factsOf(row) })
  })
}

/**
 * Activates a policy. The active policy applies to a request if the request names no policy and its key has no default
 * policy.
 * @throws POLICY_NOT_FOUND
 */
export function activatePolicy(deps: PolicyChangeDeps, actor: Actor, nameOrId: string): Promise<ShownPolicy> {
  return changePolicies(deps, actor, async ({ tx, caller: { tenantId }, record }) => {
    const policy = await getPolicy(tx, tenantId, nameOrId)
    const before = await activePolicyId(tx, tenantId)
    await setActivation(tx, tenantId, { policy_id: policy.id, activated_at: isoTime(deps.clock.now()) })
    await record({
      ...activityOn(policy, 'activate'),
      metadata: {
        policyId: policy.id,
        policyName: policy.name,
        policyHash: policy.hash,
        before,
      },
    })
    return { policy, isActive: true }
  })
}

/** Returns the active policy of a tenant, or the system default if none was activated. */
export const activePolicyId = async (db: Db, tenantId: string): Promise<string> =>
  (await findActivation(db, tenantId))?.policy_id ?? SYSTEM_DEFAULT

/** Returns the active policy of a tenant, or the system default if none was activated. */
export const getActivePolicy = async (db: Db, tenantId: string): Promise<NamedPolicy> =>
  getPolicy(db, tenantId, await activePolicyId(db, tenantId))

/** Returns a policy by id or name, built-in or custom. @throws POLICY_NOT_FOUND */
export async function getPolicy(db: Db, tenantId: string, nameOrId: string): Promise<NamedPolicy> {
  const id = toPolicyId(nameOrId)
  return findBuiltIn(id) ?? toNamedPolicy(await getRow(db, tenantId, id))
}

/**
 * Returns the tenant's own policy for a change. @throws POLICY_NOT_FOUND, INSUFFICIENT_PERMISSIONS for a built-in
 * policy
 */
async function getOwnPolicy(tx: Db, tenantId: string, nameOrId: string): Promise<PolicyRow> {
  const id = toPolicyId(nameOrId)
  if (findBuiltIn(id)) {
    throw new GatewayError(
      'INSUFFICIENT_PERMISSIONS',
      `"${id}" is a built-in policy and cannot be changed or deleted. Create a custom policy instead.`,
    )
  }
  return getRow(tx, tenantId, id)
}

async function getRow(db: Db, tenantId: string, id: string): Promise<PolicyRow> {
  const row = await findPolicyRow(db, tenantId, id)
  if (row) return row
  throw new GatewayError(
    'POLICY_NOT_FOUND',
    'Policy not found. GET /api/external/smltp-policies/all lists all policies.',
  )
}

/**
 * Rejects a policy that requires what it cannot enforce: a baseline or a required shield that only monitors, or an
 * unknown shield policy. If the shield policy is deleted later, requests under this policy are rejected.
 * @throws VALIDATION_ERROR
 */
async function requireEffective(
  tx: Db,
  tenantId: string,
  { mode, baseline, promptShield }: PolicyDocument,
): Promise<void> {
  const { required, policyId } = promptShield
  if (mode === 'monitor' && baseline) {
    throw invalidField(
      'policy.baseline',
      'A policy with mode "monitor" enforces nothing, so it cannot be a baseline. Set mode to "enforce", or baseline to false.',
      baseline,
    )
  }
  if (mode === 'monitor' && required) {
    throw invalidField(
      'policy.promptShield.required',
      'A policy with mode "monitor" blocks nothing, so it cannot require the prompt shield. Set mode to "enforce", or promptShield.required to false.',
      required,
    )
  }
  if (policyId === null) return
  const id = toPolicyId(policyId)
  const shield =
    BUILT_IN_SHIELD_POLICIES.find((policy) => policy.id === id) ?? (await findShieldPolicy(tx, tenantId, id))
  if (!shield) {
    throw invalidField(
      'policy.promptShield.policyId',
      `There is no prompt shield policy "${policyId}". GET /api/admin/prompt-shield-policies lists all of them.`,
      policyId,
    )
  }
  if (required && shield.policy.mode === 'monitor') {
    throw invalidField(
      'policy.promptShield.policyId',
      `The prompt shield policy "${id}" only monitors, but promptShield.required is true. Set the mode of the shield policy to "blocking", or name another shield policy.`,
      policyId,
    )
  }
}

/**
 * Like `change`, but also invalidates this daemon's policy cache afterwards. An error also invalidates the cache,
 * because the transaction may have been committed despite the error.
 */
async function changePolicies<T>(
  deps: PolicyChangeDeps,
  actor: Actor,
  run: (change: Change) => Promise<T>,
): Promise<T> {
  try {
    return await change(deps, actor, run)
  } finally {
    deps.policies.forget(actor.caller.tenantId)
  }
}

/** Returns the properties of a policy that audit entries contain. */
const factsOf = ({ id, name, document }: PolicyRow) => ({
  policyId: id,
  policyName: name,
  policyHash: policyHash(JSON.parse(document)),
})

const activityOn = (
  { id, name }: Pick<NamedPolicy, 'id' | 'name'>,
  operation: 'create' | 'update' | 'delete' | 'activate',
): Pick<Activity, 'type' | 'operation' | 'resourceType' | 'resourceId' | 'description'> => ({
  type: 'smltp_policy_management',
  operation,
  resourceType: 'smltp_policy',
  resourceId: id,
  description: `${operation}d policy "${name}"`,
})
