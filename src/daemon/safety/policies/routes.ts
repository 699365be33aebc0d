import type { z } from 'zod'
import { DoneResponse, StructuredError } from '../../../shared/wire/common.ts'
import {
  ActivePolicyResponse,
  CreatePolicyRequest,
  DiffPoliciesRequest,
  DiffPoliciesResponse,
  DiscoverPoliciesResponse,
  EffectivePolicyResponse,
  ListPoliciesResponse,
  type Policy,
  PolicyResponse,
  type PolicySummary,
  ShowPolicyResponse,
  UpdatePolicyRequest,
} from '../../../shared/wire/policies.ts'
import { type ResponseDoc, type Route, reply, route } from '../../platform/http/route.ts'
import { withBaseline } from './baseline.ts'
import { BUILT_IN_POLICIES, SYSTEM_DEFAULT } from './built-in.ts'
import {
  activatePolicy,
  activePolicyId,
  changePolicy,
  createPolicy,
  getActivePolicy,
  getPolicy,
  type PolicyChangeDeps,
  removePolicy,
  type ShownPolicy,
} from './changes.ts'
import { differencesOf } from './differences.ts'
import { gapsOf } from './gaps.ts'
import { type NamedPolicy, policyHash } from './policies.ts'
import { findActivation, listPolicies, tenantCreatedAt } from './store.ts'

const refused = (description: string): ResponseDoc => ({ description, schema: StructuredError })

const unknown = refused('No policy of this tenant has this name or id')
const notAllowed = refused('Not an administrator, or the policy is built in')

/**
 * Returns the routes that manage SMLTP policies. Each route accepts the id or the name of a policy, and ignores case.
 */
export function policyRoutes(deps: PolicyChangeDeps): Route[] {
  const { db, policies } = deps
  const administration: Pick<Route, 'access' | 'errors' | 'tags'> = {
    access: 'smltp-security',
    errors: 'structured',
    tags: ['Policies'],
  }
  const changed = (message: string, shown: ShownPolicy) =>
    ({ success: true, message, policy: toPolicy(shown) }) satisfies z.input<typeof PolicyResponse>

  return [
    route({
      method: 'GET',
      path: '/api/external/smltp-policies',
      access: 'key',
      errors: 'flat',
      summary: 'List the policies that this key may request',
      tags: ['Discovery'],
      responses: {
        200: { description: 'The policies that chat accepts as `smltp_policy`', schema: DiscoverPoliciesResponse },
      },
      async handle({ caller: { tenantId, settings } }) {
        const { allowedSMLTPPolicies: allowed } = settings
        const { all } = await policies.of(tenantId)
        const usable = allowed.length === 0 ? all : all.filter(({ id }) => allowed.includes(id))
        return reply(200, {
          success: true,
          policies: usable.map(({ id, name, description }) => ({ id, name, description })),
          restrictions: { allowed_policies: allowed.length === 0 ? 'all' : allowed },
        } satisfies z.input<typeof DiscoverPoliciesResponse>)
      },
    }),
    route({
      ...administration,
      method: 'GET',
      path: '/api/external/smltp-policies/all',
      rate: 'read',
      summary: 'List all policies, built-in and custom',
      responses: { 200: { description: 'All policies', schema: ListPoliciesResponse } },
      async handle({ caller: { tenantId } }) {
        const [active, custom] = await Promise.all([activePolicyId(db, tenantId), listPolicies(db, tenantId)])
        const summariesOf = (list: readonly NamedPolicy[]) =>
          list.map((policy) => toSummary({ policy, isActive: policy.id === active }))
        return reply(200, {
          success: true,
          data: {
            builtInPolicies: summariesOf(BUILT_IN_POLICIES),
            customPolicies: summariesOf(custom),
            activePolicyTemplate: active,
            summary: {
              totalPolicies: BUILT_IN_POLICIES.length + custom.length,
              builtInCount: BUILT_IN_POLICIES.length,
              customCount: custom.length,
            },
          },
        } satisfies z.input<typeof ListPoliciesResponse>)
      },
    }),
    route({
      ...administration,
      method: 'GET',
      path: '/api/external/smltp-policies/active',
      rate: 'read',
      summary: 'Show the active policy, the default for requests and keys that name no policy',
      responses: { 200: { description: 'The active policy', schema: ActivePolicyResponse } },
      async handle({ caller: { tenantId } }) {
        const activation = await findActivation(db, tenantId)
        const policy = await getPolicy(db, tenantId, activation?.policy_id ?? SYSTEM_DEFAULT)
        const since = activation?.activated_at ?? (await tenantCreatedAt(db, tenantId))
        const lastUpdated = policy.updatedAt !== null && policy.updatedAt > since ? policy.updatedAt : since
        return reply(200, {
          success: true,
          data: {
            template: policy.id,
            policy: policy.document,
            policyHash: policy.hash,
            lastUpdated,
            gaps: gapsOf(policy.document),
          },
        } satisfies z.input<typeof ActivePolicyResponse>)
      },
    }),
    route({
      ...administration,
      method: 'POST',
      path: '/api/external/smltp-policies',
      rate: 'write',
      summary: 'Create a custom policy',
      body: CreatePolicyRequest,
      responses: {
        201: { description: 'The new policy', schema: PolicyResponse },
        409: refused('A policy with this name, or with the id derived from it, exists'),
      },
      async handle(context) {
        return reply(201, changed('Policy created', await createPolicy(deps, context, context.body)))
      },
    }),
    route({
      ...administration,
      method: 'POST',
      path: '/api/external/smltp-policies/diff',
      summary: 'Compare two policies or unsaved policy documents; nothing is stored',
      body: DiffPoliciesRequest,
      responses: { 200: { description: 'The fields that differ', schema: DiffPoliciesResponse }, 404: unknown },
      async handle({ caller: { tenantId }, body }) {
        const sideOf = async (given: typeof body.from) => {
          if (typeof given !== 'string') return { id: null, document: given, policyHash: policyHash(given) }
          const { id, document, hash } = await getPolicy(db, tenantId, given)
          return { id, document, policyHash: hash }
        }
        const [{ document: before, ...from }, { document: after, ...to }] = await Promise.all([
          sideOf(body.from),
          sideOf(body.to),
        ])
        const differences = differencesOf(before, after)
        const equal = differences.length === 0
        return reply(200, {
          success: true,
          data: { from, to, equal, differences },
        } satisfies z.input<typeof DiffPoliciesResponse>)
      },
    }),
    route({
      ...administration,
      method: 'GET',
      path: '/api/external/smltp-policies/{policyId}',
      rate: 'read',
      summary: 'Show a policy with its document',
      responses: { 200: { description: 'The policy', schema: ShowPolicyResponse }, 404: unknown },
      async handle({ caller: { tenantId }, params }) {
        const policy = await getPolicy(db, tenantId, params.policyId ?? '')
        const isActive = policy.id === (await activePolicyId(db, tenantId))
        return reply(200, { success: true, policy: toPolicy({ policy, isActive }) } satisfies z.input<
          typeof ShowPolicyResponse
        >)
      },
    }),
    route({
      ...administration,
      method: 'GET',
      path: '/api/external/smltp-policies/{policyId}/effective',
      summary:
        'Show the document that applies to requests: the policy, joined with the active policy if that is a baseline',
      responses: { 200: { description: 'The joined policy', schema: EffectivePolicyResponse }, 404: unknown },
      async handle({ caller: { tenantId }, params }) {
        const [policy, active] = await Promise.all([
          getPolicy(db, tenantId, params.policyId ?? ''),
          getActivePolicy(db, tenantId),
        ])
        const { document, hash, baseline } = withBaseline(active)(policy)
        const shown = { policy: { ...policy, document, hash }, isActive: policy.id === active.id }
        return reply(200, {
          success: true,
          policy: toPolicy(shown),
          baseline: baseline?.id ?? null,
        } satisfies z.input<typeof EffectivePolicyResponse>)
      },
    }),
    route({
      ...administration,
      method: 'PUT',
      path: '/api/external/smltp-policies/{policyId}',
      rate: 'write',
      summary: 'Update a custom policy; the change applies to new requests at once',
      body: UpdatePolicyRequest,
      responses: {
        403: notAllowed,
        200: { description: 'The updated policy', schema: PolicyResponse },
        404: unknown,
      },
      async handle(context) {
        const { params, body } = context
        return reply(200, changed('Policy updated', await changePolicy(deps, context, params.policyId ?? '', body)))
      },
    }),
    route({
      ...administration,
      method: 'DELETE',
      path: '/api/external/smltp-policies/{policyId}',
      rate: 'write',
      summary: 'Delete a custom policy; the policy must be inactive and unused by keys',
      responses: {
        403: notAllowed,
        200: { description: 'The policy was deleted', schema: DoneResponse },
        404: unknown,
        409: refused('The policy is active, or keys use it'),
      },
      async handle(context) {
        await removePolicy(deps, context, context.params.policyId ?? '')
        return reply(200, { success: true, message: 'Policy deleted' } satisfies z.input<typeof DoneResponse>)
      },
    }),
    route({
      ...administration,
      method: 'POST',
      path: '/api/external/smltp-policies/{policyId}/activate',
      rate: 'write',
      summary: 'Make a built-in or custom policy the active one of the tenant',
      responses: { 200: { description: 'The activated policy', schema: PolicyResponse }, 404: unknown },
      async handle(context) {
        const shown = await activatePolicy(deps, context, context.params.policyId ?? '')
        return reply(200, changed('Policy activated', shown))
      },
    }),
  ]
}

const toSummary = ({ policy, isActive }: ShownPolicy): PolicySummary => ({
  id: policy.id,
  name: policy.name,
  description: policy.description,
  type: policy.type,
  isActive,
  policyHash: policy.hash,
  ...(policy.createdAt !== null && { createdAt: policy.createdAt }),
  ...(policy.updatedAt !== null && { updatedAt: policy.updatedAt }),
})

const toPolicy = (shown: ShownPolicy): Policy => ({ ...toSummary(shown), policy: shown.policy.document })
