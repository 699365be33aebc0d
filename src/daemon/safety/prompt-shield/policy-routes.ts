import type { z } from 'zod'
import { GatewayError } from '../../../shared/errors.ts'
import { toPolicyId } from '../../../shared/policy-id.ts'
import { isoTime } from '../../../shared/time.ts'
import { DoneResponse, StructuredError } from '../../../shared/wire/common.ts'
import {
  CreateShieldPolicyRequest,
  ListShieldPoliciesResponse,
  SHIELD_POLICY_READ_ONLY,
  type ShieldPolicy,
  ShieldPolicyResponse,
  ShowShieldPolicyResponse,
  UpdateShieldPolicyRequest,
} from '../../../shared/wire/shield.ts'
import type { Db } from '../../platform/db/db.ts'
import { requireUnlike } from '../../platform/db/distinct-name.ts'
import type { FreshCache } from '../../platform/db/fresh-cache.ts'
import { changesIn } from '../../platform/http/read-only.ts'
import { type Route, reply, route } from '../../platform/http/route.ts'
import { type ChangeDeps, change } from '../../records/audit/change.ts'
import { listPolicies } from '../policies/store.ts'
import { BUILT_IN_SHIELD_POLICIES } from './built-in.ts'
import {
  deleteShieldPolicy,
  findShieldPolicies,
  findShieldPolicy,
  insertShieldPolicy,
  nameExists,
  updateShieldPolicy,
} from './store.ts'

const NOT_FOUND = { description: 'No prompt shield policy of this tenant has this id', schema: StructuredError }
const BUILT_IN = { description: 'Not an administrator, or a built-in policy', schema: StructuredError }
const BASE = '/api/admin/prompt-shield-policies'

/** Returns the management routes of prompt shield policies. */
export function shieldPolicyRoutes(
  deps: ChangeDeps & { shieldPolicies: Pick<FreshCache<readonly ShieldPolicy[]>, 'forget'> },
): Route[] {
  const { db, clock, shieldPolicies } = deps
  const common: Pick<Route, 'access' | 'errors' | 'tags'> = {
    access: 'smltp-security',
    errors: 'structured',
    tags: ['Prompt shield'],
  }
  return [
    route({
      ...common,
      method: 'GET',
      path: BASE,
      summary: 'List prompt shield policies',
      responses: {
        200: {
          description: 'The built-in policies, then the custom policies by name',
          schema: ListShieldPoliciesResponse,
        },
      },
      async handle({ caller }) {
        const policies = [...BUILT_IN_SHIELD_POLICIES, ...(await findShieldPolicies(db, caller.tenantId))]
        return reply(200, { success: true, policies } satisfies z.input<typeof ListShieldPoliciesResponse>)
      },
    }),
    route({
      ...common,
      method: 'POST',
      path: BASE,
      summary: 'Create a prompt shield policy',
      body: CreateShieldPolicyRequest,
      responses: {
        201: { description: 'The policy; it can be assigned to keys at once', schema: ShieldPolicyResponse },
        409: { description: 'A prompt shield policy with this name exists', schema: StructuredError },
      },
      async handle(context) {
        const { caller, body } = context
        const now = isoTime(clock.now())
        const id = toPolicyId(body.name)
        if (builtInOf(id)) throw nameExists(body.name)
        const policy = await change(deps, context, async ({ tx, record }) => {
          const others = await findShieldPolicies(tx, caller.tenantId)
          requireUnlike('name', body.name, [...BUILT_IN_SHIELD_POLICIES, ...others])
          await insertShieldPolicy(tx, {
            tenant_id: caller.tenantId,
            id,
            name: body.name,
            description: body.description,
            document: JSON.stringify(body.policy),
            created_at: now,
            updated_at: now,
          })
          await record({ ...activityOn({ id, name: body.name }, 'create'), metadata: { policy: body.policy } })
          return getShieldPolicy(tx, caller.tenantId, id)
        })
        shieldPolicies.forget(caller.tenantId)
        const message = 'Prompt shield policy created'
        return reply(201, { success: true, message, policy } satisfies z.input<typeof ShieldPolicyResponse>)
      },
    }),
    route({
      ...common,
      method: 'GET',
      path: `${BASE}/{policyId}`,
      summary: 'Show a prompt shield policy',
      responses: { 200: { description: 'The policy', schema: ShowShieldPolicyResponse }, 404: NOT_FOUND },
      async handle({ caller, params }) {
        const policy = await getShieldPolicy(db, caller.tenantId, params.policyId)
        return reply(200, { success: true, policy } satisfies z.input<typeof ShowShieldPolicyResponse>)
      },
    }),
    route({
      ...common,
      method: 'PUT',
      path: `${BASE}/{policyId}`,
      summary: 'Update a prompt shield policy',
      body: UpdateShieldPolicyRequest,
      responses: {
        200: { description: 'The updated policy', schema: ShieldPolicyResponse },
        403: BUILT_IN,
        404: NOT_FOUND,
        409: { description: 'An SMLTP policy requires this shield policy, so it must block', schema: StructuredError },
      },
      async handle(context) {
        const { params, caller } = context
        const policy = await change(deps, context, async ({ tx, record }) => {
          const before = await getCustomPolicy(tx, caller.tenantId, params.policyId)
          const changes = changesIn(context.body, SHIELD_POLICY_READ_ONLY, {
            createdAt: undefined,
            updatedAt: undefined,
            ...before,
          })
          const { description = before.description, policy = before.policy } = changes
          if (policy.mode === 'monitor') await requireNotRequired(tx, caller.tenantId, before.id)
          await updateShieldPolicy(tx, {
            tenant_id: caller.tenantId,
            id: before.id,
            description,
            document: JSON.stringify(policy),
            updated_at: isoTime(clock.now()),
          })
          await record({ ...activityOn(before, 'update'), metadata: { ...changes } })
          return getShieldPolicy(tx, caller.tenantId, before.id)
        })
        shieldPolicies.forget(caller.tenantId)
        const message = 'Prompt shield policy updated'
        return reply(200, { success: true, message, policy } satisfies z.input<typeof ShieldPolicyResponse>)
      },
    }),
    route({
      ...common,
      method: 'DELETE',
      path: `${BASE}/{policyId}`,
      summary: 'Delete a prompt shield policy; calls of keys that are bound to it are rejected from then on',
      responses: {
        200: { description: 'The policy was deleted', schema: DoneResponse },
        403: BUILT_IN,
        404: NOT_FOUND,
      },
      async handle(context) {
        const { params, caller } = context
        await change(deps, context, async ({ tx, record }) => {
          const policy = await getCustomPolicy(tx, caller.tenantId, params.policyId)
          await deleteShieldPolicy(tx, caller.tenantId, policy.id)
          await record(activityOn(policy, 'delete'))
        })
        shieldPolicies.forget(caller.tenantId)
        const message = 'Prompt shield policy deleted'
        return reply(200, { success: true, message } satisfies z.input<typeof DoneResponse>)
      },
    }),
  ]
}

const builtInOf = (id: string) => BUILT_IN_SHIELD_POLICIES.find((policy) => policy.id === id)

/** Finds a policy by id or name, case-insensitive. @throws POLICY_NOT_FOUND */
async function getShieldPolicy(db: Db, tenantId: string, reference: string | undefined): Promise<ShieldPolicy> {
  const id = toPolicyId(reference ?? '')
  const policy = builtInOf(id) ?? (await findShieldPolicy(db, tenantId, id))
  if (policy) return policy
  throw new GatewayError('POLICY_NOT_FOUND', `Prompt shield policy not found. GET ${BASE} lists all of them.`)
}

/** @throws POLICY_NOT_FOUND, INSUFFICIENT_PERMISSIONS for a built-in policy */
async function getCustomPolicy(db: Db, tenantId: string, reference: string | undefined): Promise<ShieldPolicy> {
  const policy = await getShieldPolicy(db, tenantId, reference)
  if (policy.type === 'custom') return policy
  throw new GatewayError(
    'INSUFFICIENT_PERMISSIONS',
    `"${policy.name}" is a built-in policy and cannot be changed or deleted. Create a custom policy instead.`,
  )
}

/** @throws POLICY_IN_USE if an SMLTP policy requires this shield policy, which therefore must not only monitor */
async function requireNotRequired(tx: Db, tenantId: string, id: string): Promise<void> {
  const requiring = (await listPolicies(tx, tenantId)).filter(
    ({ document: { promptShield } }) => promptShield.required && toPolicyId(promptShield.policyId ?? '') === id,
  )
  const [first] = requiring
  if (!first) return
  const more = requiring.length > 1 ? ` and ${requiring.length - 1} more` : ''
  throw new GatewayError(
    'POLICY_IN_USE',
    `The SMLTP policy "${first.id}"${more} requires this prompt shield policy, so its mode must stay "blocking". Set ` +
      'promptShield.required of the SMLTP policy to false, or name another shield policy there.',
  )
}

const activityOn = ({ id, name }: Pick<ShieldPolicy, 'id' | 'name'>, operation: 'create' | 'update' | 'delete') =>
  ({
    type: 'shield_policy_management',
    operation,
    resourceType: 'shield_policy',
    resourceId: id,
    description: `${operation}d prompt shield policy "${name}"`,
  }) as const
