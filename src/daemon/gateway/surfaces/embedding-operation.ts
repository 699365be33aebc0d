// The embeddings operation of each interface.

import type { EmbeddingsRequest } from '../../../shared/wire/openai.ts'
import { textOf } from '../../models/conversation.ts'
import { type Embeddings, ProviderError, type TokenUsage } from '../../models/provider.ts'
import { createPacer, runInSlices } from '../../platform/pacing.ts'
import { countBilledTokens } from '../governed/count-tokens.ts'
import type { GovernedDeps } from '../governed/deps.ts'
import type { Opened } from '../governed/failover.ts'
import type { GovernedInput } from '../governed/input.ts'
import { jsonPartsDelivery } from '../governed/json-delivery.ts'
import type { Operation, Running } from '../governed/operation.ts'
import { EMBEDDINGS_CACHING } from './recorded-embeddings.ts'
import { toTextOrder } from './text-order.ts'

export type EmbeddingsInput = GovernedInput & Pick<EmbeddingsRequest, 'dimensions' | 'encoding_format'>

/** Yields the JSON of the response in parts, one part per vector. */
export type Render = (answer: {
  running: Running<EmbeddingsInput, undefined>
  opened: Opened<Embeddings>
  usage: TokenUsage
  deps: GovernedDeps
}) => Iterable<string>

/** Embeds the screened texts, one vector per text. */
export const embeddingsOperation = ({
  path,
  errors,
  render,
}: Pick<Operation<EmbeddingsInput, undefined, Embeddings>, 'path' | 'errors'> & {
  render: Render
}): Operation<EmbeddingsInput, undefined, Embeddings> => ({
  name: 'embedding',
  path,
  errors,
  isCompatible: true,
  prepare: () => ({ facts: {}, value: undefined }),
  caching: EMBEDDINGS_CACHING,
  orderOf: toTextOrder,
  async begin(
    { context, screened, signal },
    { provider, model },
    { timeouts: { attemptMs }, entitle, onHead, onFirstOutput },
  ) {
    if (!provider.embed) throw new ProviderError('bad_request', 'This provider does not support embeddings.')
    const { conversation, options, policy, input } = screened
    const { noTraining } = policy.document.privacyHeaders
    const texts = conversation.messages.map(({ content }) => textOf(content))
    const { dimensions } = input
    const { isLarge } = context
    const call = {
      model,
      input: texts,
      dimensions,
      user: options?.user,
      native: options?.native,
      noTraining,
      isLarge,
      entitle,
      onHead,
      attemptMs,
    }
    const embeddings = await provider.embed(call, signal)
    onFirstOutput()
    return embeddings
  },
  async deliver(running, opened, deps) {
    const { begun } = opened
    opened.close(undefined)
    const output = { usage: begun.usage, isFinal: true, generated: '' }
    const usage = await countBilledTokens(running, opened, 0, output, deps)
    return await runInSlices(jsonPartsDelivery(render({ running, opened, usage, deps }), usage), createPacer())
  },
})
