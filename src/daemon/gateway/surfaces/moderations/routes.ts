import { ZERO_KNOWLEDGE } from '../../../../shared/wire/indexes.ts'
import { MODERATIONS_PATH, ModerationRequest, ModerationResponse } from '../../../../shared/wire/moderations.ts'
import { textOf } from '../../../models/conversation.ts'
import { type Moderation, ProviderError } from '../../../models/provider.ts'
import { type Route, reply, route } from '../../../platform/http/route.ts'
import { toEnvelope } from '../../chat/envelope.ts'
import { toExtension } from '../../chat/extension.ts'
import { countBilledTokens } from '../../governed/count-tokens.ts'
import type { GovernedDeps } from '../../governed/deps.ts'
import { governed } from '../../governed/governed.ts'
import type { GovernedInput } from '../../governed/input.ts'
import { jsonDelivery } from '../../governed/json-delivery.ts'
import type { Operation } from '../../governed/operation.ts'
import { FAILURES } from '../openai/failures.ts'
import { toTextOrder } from '../text-order.ts'
import { moderateByGuards } from './guards.ts'

/** Moderates the screened texts by the model of a provider. */
const MODERATION: Operation<GovernedInput, undefined, Moderation[]> = {
  name: 'moderation',
  path: MODERATIONS_PATH,
  errors: 'openai',
  isCompatible: true,
  prepare: () => ({ facts: {}, value: undefined }),
  orderOf: toTextOrder,
  async begin(
    { context, screened, signal },
    { provider, model },
    { timeouts: { attemptMs }, entitle, onHead, onFirstOutput },
  ) {
    if (!provider.moderate) throw new ProviderError('bad_request', 'This provider does not support moderation.')
    const { conversation, policy } = screened
    const input = conversation.messages.map(({ content }) => textOf(content))
    const { noTraining } = policy.document.privacyHeaders
    const { isLarge } = context
    const results = await provider.moderate({ model, input, noTraining, isLarge, entitle, onHead, attemptMs }, signal)
    onFirstOutput()
    return results
  },
  async deliver(running, opened, deps) {
    opened.close(undefined)
    const usage = await countBilledTokens(running, opened, 0, { usage: undefined, isFinal: true, generated: '' }, deps)
    const envelope = toEnvelope(running, opened, deps)
    const response = {
      id: `modr-${envelope.id.replace(/^req-/, '')}`,
      model: envelope.model,
      results: opened.begun,
      gateway: toExtension(envelope),
    } satisfies ModerationResponse
    return jsonDelivery(response, usage)
  },
}

/** The route of OpenAI's moderation, also available directly under `/v1`. */
export function moderationsRoutes(deps: GovernedDeps): Route[] {
  const { limits } = deps
  return [
    route({
      method: 'POST',
      path: MODERATIONS_PATH,
      access: 'key',
      errors: 'openai',
      summary: 'Classify texts, by the guards of the gateway or by the model of a provider',
      tags: ['OpenAI-compatible'],
      body: ModerationRequest,
      bodyLimit: limits.bodyBytes,
      jsonDepth: limits.jsonDepth,
      hashesBody: true,
      callsModels: true,
      takesIdempotencyKey: true,
      responses: { 200: { description: 'One result for each text', schema: ModerationResponse }, ...FAILURES },
      async handle(context) {
        const { body } = context
        // Clients of OpenAI send the names of OpenAI's models without a provider.
        if (!body.model?.includes('/')) return reply(200, await moderateByGuards(body, context, deps))
        return governed(MODERATION, toInput(body, body.model), context, deps)
      },
    }),
  ]
}

const toInput = (request: ModerationRequest, model: string): GovernedInput => ({
  conversation: { system: '', messages: request.input.map((content) => ({ role: 'user' as const, content })) },
  // The explicit chain disables the key's failover defaults, because the categories of models differ.
  chain: { models: [{ model }] },
  index: ZERO_KNOWLEDGE,
  policy: request.smltp_policy,
  shield: request.prompt_shield,
  userId: request.user_id,
  conversationId: undefined,
  stream: false,
  options: undefined,
})
