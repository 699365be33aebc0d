// Moderation by the gateway's own guards. No model is called, nothing is billed and nothing is stored.
import { GUARDS_MODEL, type ModerationRequest, type ModerationResponse } from '../../../../shared/wire/moderations.ts'
import type { Message } from '../../../models/conversation.ts'
import type { RequestContext } from '../../../platform/http/route.ts'
import { createPacer } from '../../../platform/pacing.ts'
import { pseudonymsFor, redact, scanPromptText } from '../../../safety/guards/request/request-screening.ts'
import type { AppliedPolicy } from '../../../safety/policies/policies.ts'
import { resolveShield, toShownShield } from '../../../safety/prompt-shield/resolve.ts'
import { requireMayChat } from '../../governed/admit.ts'
import type { GovernedDeps } from '../../governed/deps.ts'
import { requireWithin } from '../../governed/request-limits.ts'

type Context = Pick<RequestContext, 'caller' | 'requestId' | 'signal'>
type Result = ModerationResponse['results'][number]

/** A risk score of the shield is 100 at most. */
const CERTAIN = 100

/**
 * Inspects each text as the message of a user, with the policy and the shield of the caller's chats.
 * @throws GatewayError as a chat with these options would
 */
export async function moderateByGuards(
  request: ModerationRequest,
  context: Context,
  deps: GovernedDeps,
): Promise<ModerationResponse> {
  const { caller, requestId, signal } = context
  requireMayChat(caller)
  const conversation = { system: '', messages: request.input.map(fromUser) }
  requireWithin({ conversation, options: undefined }, deps.limits, caller.settings.limits)
  // The guards need as much time as in a chat, so moderation waits in the same queue as chats.
  const turn = deps.callerGate.enter(caller, signal)
  if (turn) await turn
  try {
    const { policies, guards } = deps
    const { settings, tenantId } = caller
    const policy = (await policies.of(tenantId)).resolve(request.smltp_policy, settings)
    const shield = resolveShield({
      request: request.prompt_shield,
      settings,
      policy,
      custom: await guards.shieldPolicies.of(tenantId),
    })
    const rules = await guards.rulesFor(tenantId, policy)
    const kinds = kindsOf(rules.sources, policy.document)

    async function moderate(text: string): Promise<Result> {
      const messages = [fromUser(text)]
      const promptText = { system: '', messages, options: undefined }
      const redacted = await redact(promptText, rules, pseudonymsFor(promptText, rules, tenantId, guards))
      const found = new Set<string>()
      for (const { kind, types } of rules.input.incidentsOf(redacted.hits, 'input')) {
        found.add(kind)
        for (const type of Object.keys(types)) found.add(`${kind}/${type}`)
      }
      // A judge is a model, so it would have to be billed and recorded.
      const terms = { tenantId, mayCall: () => false, signal, pacer: createPacer() }
      const scan = await scanPromptText(redacted.promptText, shield, guards, terms)
      const { verdict = 'ALLOW', riskScore = 0 } = scan?.spoken ?? {}
      const isAttack = verdict === 'FLAG' || verdict === 'BLOCK'
      const names = [...new Set([...kinds, ...found])]
      return {
        flagged: found.size > 0 || isAttack,
        categories: {
          ...Object.fromEntries(names.map((name) => [name, found.has(name)])),
          ...(shield && { prompt_shield: isAttack }),
        },
        category_scores: {
          ...Object.fromEntries(names.map((name) => [name, found.has(name) ? 1 : 0])),
          ...(shield && { prompt_shield: riskScore / CERTAIN }),
        },
      }
    }

    const results: Result[] = []
    for (const text of request.input) results.push(await moderate(text))
    return {
      id: `modr-${requestId.replace(/^req-/, '')}`,
      model: GUARDS_MODEL,
      results,
      gateway: {
        smltp_policy_used: policy.canonical,
        smltp_policy_source: policy.source,
        smltp_policy_hash: policy.hash,
        ...(policy.baseline && { smltp_policy_baseline: policy.baseline.id }),
        prompt_shield_policy: shield ? toShownShield(shield) : null,
      },
    }
  } finally {
    deps.callerGate.leave(caller)
  }
}

const fromUser = (content: string): Message => ({ role: 'user', content })

type Rules = Awaited<ReturnType<GovernedDeps['guards']['rulesFor']>>

/** The kinds of rules that inspect the text. A category of any other kind would promise an inspection. */
function kindsOf(
  { own }: Rules['sources'],
  { dlp, pii }: Pick<AppliedPolicy['document'], 'dlp' | 'pii'>,
): ('dlp' | 'pii')[] {
  const isOwn = (kind: 'dlp' | 'pii') => own.some((rule) => rule.enabled && rule.kind === kind)
  return [
    ...(dlp.enabled || isOwn('dlp') ? ['dlp' as const] : []),
    ...(pii.enabled || isOwn('pii') ? ['pii' as const] : []),
  ]
}
