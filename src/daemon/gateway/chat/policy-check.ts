import { ERRORS, GatewayError } from '../../../shared/errors.ts'
import { ChatRequest } from '../../../shared/wire/chat.ts'
import type { PolicyCheckResponse } from '../../../shared/wire/policy-check.ts'
import { periodAt } from '../../metering/usage/period.ts'
import { findSpend } from '../../platform/db/spend-counters.ts'
import { checkAgainst } from '../../platform/http/body.ts'
import { flatLabel } from '../../platform/http/error-response.ts'
import type { RequestContext } from '../../platform/http/route.ts'
import { createPacer } from '../../platform/pacing.ts'
import {
  contentBlocked,
  promptBlocked,
  pseudonymsFor,
  redact,
  scanPromptText,
} from '../../safety/guards/request/request-screening.ts'
import { mayCallUnder, requireAllowed } from '../../safety/policies/enforce.ts'
import { resolveShield, toShownShield } from '../../safety/prompt-shield/resolve.ts'
import { indexOf, payerOf, requireMayChat, requireReceipts } from '../governed/admit.ts'
import { modelsOf, planChain } from '../governed/chain.ts'
import type { GovernedDeps } from '../governed/deps.ts'
import { answerLimit, requireFewMessages, requireWithin } from '../governed/request-limits.ts'
import { tagOf } from '../governed/tag.ts'
import { toChatInput } from './input.ts'

type Checks = PolicyCheckResponse['checks']

/**
 * Dry run of a chat request: runs every check separately and reports its outcome. Calls no model, bills nothing and
 * stores nothing.
 */
export async function checkPolicy(body: unknown, asked: Asked, deps: GovernedDeps): Promise<PolicyCheckResponse> {
  // The guards need as much time as in a chat, so a dry run waits in the same queue as chats.
  const turn = deps.callerGate.enter(asked.caller, asked.signal)
  if (turn) await turn
  try {
    return await checkAll(body, asked, deps)
  } finally {
    deps.callerGate.leave(asked.caller)
  }
}

type Asked = Pick<RequestContext, 'caller' | 'requestId' | 'signal' | 'request'>

async function checkAll(
  body: unknown,
  { caller, requestId, signal, request: { headers } }: Asked,
  { db, budgets, providers, names, policies, guards, billing, clock, limits, receipts }: GovernedDeps,
): Promise<PolicyCheckResponse> {
  const { settings, tenantId } = caller
  const { checks, check } = createChecks()

  let tag: string | undefined
  const input = await check('input', async () => {
    const request = checkAgainst(ChatRequest, body) as ChatRequest
    requireFewMessages(request.messages ?? [], {}, settings.limits)
    const input = toChatInput(request, settings.limits)
    requireWithin(input, {}, settings.limits)
    await indexOf(input, caller, db)
    tag = tagOf(headers, body)
    return input
  })
  const policy =
    input &&
    (await check(
      'smltp_policy',
      async () => {
        const applied = (await policies.of(tenantId)).resolve(input.policy, settings)
        requireReceipts(applied, receipts)
        return applied
      },
      ({ name, canonical, source, hash, baseline }) => ({
        applied: { name, canonical, source, policy_hash: hash, ...(baseline && { baseline: baseline.id }) },
      }),
      (status) => (status === 403 ? 'smltp_policy_access' : 'smltp_policy'),
    ))
  if (policy) checks.smltp_policy_access = { passed: true }
  const chain =
    input &&
    (await check(
      'model_access',
      () =>
        planChain(input.chain, providers, settings, {
          ...{ stream: input.stream, limits, names, isExact: input.isExact },
          mayCall: policy && mayCallUnder(policy),
        }),
      () => ({}),
      // An unknown model is invalid input. A forbidden model fails the access check.
      (status) => (status === 400 ? 'input' : 'model_access'),
    ))
  if (chain) {
    await check('model_access', () => {
      requireMayChat(caller)
      if (policy) requireAllowed(policy, modelsOf(chain))
    })
  }
  const shield =
    input &&
    policy &&
    (await check('prompt_shield_authorization', async () => ({
      applied: resolveShield({
        request: input.shield,
        settings,
        policy,
        custom: await guards.shieldPolicies.of(tenantId),
      }),
    })))

  if (input && chain) {
    await check(
      'quota',
      async () => {
        const account = await payerOf(input, caller, db)
        const payer = { ...account, budgets: await budgets.of({ tenantId, payerId: account.id, tag }) }
        const { required, limit: allowance } = billing.pointsOf(chain.attempts, payer)
        const call = { ...input.conversation, options: input.options, maxTokens: input.maxTokens }
        const limit = answerLimit(input.maxTokens, {}, settings.limits)
        const payment = await billing.reserve({
          ...{ requestId, isDryRun: true, caller, payer, attempts: chain.attempts, call, limit },
        })
        await payment.release()
        const period = periodAt(clock.now()).name
        const spent = await findSpend(db, { tenant_id: tenantId, holder: 'user', holder_id: payer.id, period })
        return { required, remaining: allowance === null ? null : Math.max(0, allowance - spent.points) }
      },
      ({ required, remaining }) => ({ points_required: required, points_remaining: remaining }),
    )
  }
  if (input && policy) {
    const promptText = { ...input.conversation, options: input.options }
    const content = await check('content', async () => {
      const rules = await guards.rulesFor(tenantId, policy)
      const redacted = await redact(promptText, rules, pseudonymsFor(promptText, rules, tenantId, guards))
      return { ...redacted, incidents: rules.input.incidentsOf(redacted.hits, 'input') }
    })
    if (content) {
      const { isBlocked, incidents } = content
      checks.content = {
        ...(isBlocked ? failureOf(contentBlocked(incidents)) : { passed: true }),
        would_block: isBlocked,
        findings: incidents.map(({ kind, ruleName, types, action, enforced }) => ({
          kind,
          rule: ruleName,
          types: { ...types },
          action,
          enforced,
        })),
      }
    }
    const applied = shield?.applied
    // The judge model is not called either, because a dry run must not cost anything or send the request to a provider.
    const terms = { tenantId, mayCall: () => false, signal, pacer: createPacer(), wantsDetails: true }
    const scan =
      applied &&
      content &&
      (await check('prompt_shield_scan', async () => ({
        found: await scanPromptText(content.promptText, applied, guards, terms),
      })))
    if (applied && scan) {
      const { riskScore = 0, verdict = 'ALLOW', attackCategory = null, details = [] } = scan.found?.spoken ?? {}
      const wouldBlock = verdict === 'BLOCK' && applied.document.mode === 'blocking'
      checks.prompt_shield_scan = {
        // A detection fails the check even if the shield only reports it.
        ...(verdict === 'BLOCK' ? failureOf(promptBlocked(attackCategory)) : { passed: true }),
        verdict,
        risk_score: riskScore,
        attack_category: attackCategory,
        detections: details.length,
        shield_mode: applied.document.mode,
        would_block: wouldBlock,
        policy: toShownShield(applied),
      }
    }
  }

  const all = { ...NOT_CHECKED, ...checks }
  return {
    success: true,
    dry_run: true,
    allowed: Object.values(checks).every((one) => 'skipped' in one || one.passed),
    checks: all,
    plan: {
      models: chain ? modelsOf(chain).map(({ modelId }) => modelId) : [],
      failover_engine: chain !== undefined && chain.attempts.length > 1,
    },
  }
}

const SKIPPED = { skipped: true } as const
/** The results for skipped checks: an earlier check failed, or the check does not apply. */
const NOT_CHECKED: Checks = {
  input: { passed: true },
  model_access: SKIPPED,
  smltp_policy: SKIPPED,
  smltp_policy_access: SKIPPED,
  prompt_shield_authorization: SKIPPED,
  quota: SKIPPED,
  content: SKIPPED,
  prompt_shield_scan: SKIPPED,
}

function createChecks() {
  const checks: Partial<Checks> = {}
  return {
    checks,
    /**
     * Runs one check and stores its outcome. Returns undefined if the check failed.
     * @param blame returns the check to which an error with this status is attributed
     */
    async check<T>(
      name: keyof Checks,
      run: () => T | Promise<T>,
      show: (value: T) => object = () => ({}),
      blame: (status: number) => keyof Checks = () => name,
    ): Promise<T | undefined> {
      try {
        const value = await run()
        checks[name] = { passed: true, ...show(value) }
        return value
      } catch (error) {
        if (!(error instanceof GatewayError)) throw error
        checks[blame(ERRORS[error.code].status)] = failureOf(error)
        return undefined
      }
    },
  }
}

/** Returns the error that a real request would get. */
const failureOf = (error: GatewayError) => ({
  passed: false,
  status: ERRORS[error.code].status,
  error: flatLabel(error),
  message: error.message,
})
