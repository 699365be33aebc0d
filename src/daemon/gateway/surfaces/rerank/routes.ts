import { ZERO_KNOWLEDGE } from '../../../../shared/wire/indexes.ts'
import { RERANK_PATH, RerankRequest, RerankResponse } from '../../../../shared/wire/rerank.ts'
import { textOf } from '../../../models/conversation.ts'
import { ProviderError, type Reranked } from '../../../models/provider.ts'
import { type Route, route } from '../../../platform/http/route.ts'
import { toEnvelope } from '../../chat/envelope.ts'
import { toExtension } from '../../chat/extension.ts'
import { requireModel } from '../../chat/input.ts'
import { countBilledTokens } from '../../governed/count-tokens.ts'
import type { GovernedDeps } from '../../governed/deps.ts'
import { governed } from '../../governed/governed.ts'
import type { GovernedInput } from '../../governed/input.ts'
import { jsonDelivery } from '../../governed/json-delivery.ts'
import type { Operation } from '../../governed/operation.ts'
import { FAILURES } from '../openai/failures.ts'
import { toTextOrder } from '../text-order.ts'

type RerankInput = GovernedInput &
  Pick<RerankRequest, 'documents' | 'top_n' | 'return_documents'> & { unknown: string[] }

/** Ranks the screened documents. */
const RERANK: Operation<RerankInput, undefined, Reranked> = {
  name: 'rerank',
  path: RERANK_PATH,
  errors: 'openai',
  isCompatible: true,
  prepare: () => ({ facts: {}, value: undefined }),
  orderOf: toTextOrder,
  async begin(
    { context, screened, signal },
    { provider, model },
    { timeouts: { attemptMs }, entitle, onHead, onFirstOutput },
  ) {
    if (!provider.rerank) throw new ProviderError('bad_request', 'This provider does not support reranking.')
    const { conversation, policy, input } = screened
    const [query = '', ...documents] = conversation.messages.map(({ content }) => textOf(content))
    const { noTraining } = policy.document.privacyHeaders
    const count = Math.min(input.top_n ?? documents.length, documents.length)
    const { isLarge } = context
    const call = { model, query, documents, count, noTraining, isLarge, entitle, onHead, attemptMs }
    const ranked = await provider.rerank(call, signal)
    onFirstOutput()
    return ranked.toSorted((left, right) => right.score - left.score).slice(0, count)
  },
  async deliver(running, opened, deps) {
    opened.close(undefined)
    const { documents, return_documents: returnsDocuments, unknown } = running.screened.input
    const usage = await countBilledTokens(running, opened, 0, { usage: undefined, isFinal: true, generated: '' }, deps)
    const dropped = unknown.map((field) => ({ field, why: 'gateway' as const }))
    const envelope = toEnvelope(running, opened, deps, { dropped })
    const response = {
      id: `rerank-${envelope.id.replace(/^req-/, '')}`,
      object: 'list',
      model: envelope.model,
      results: opened.begun.map(({ index, score }) => ({
        index,
        relevance_score: score,
        ...(returnsDocuments && { document: { text: documents[index] ?? '' } }),
      })),
      usage: { prompt_tokens: usage.inputTokens, total_tokens: usage.inputTokens + usage.outputTokens },
      gateway: toExtension(envelope),
    } satisfies RerankResponse
    return jsonDelivery(response, usage)
  },
}

/** The route that ranks documents, also available directly under `/v1`. */
export function rerankRoutes(deps: GovernedDeps): Route[] {
  const { limits } = deps
  return [
    route({
      method: 'POST',
      path: RERANK_PATH,
      access: 'key',
      errors: 'openai',
      summary: 'Rank documents by how well they answer a query',
      tags: ['OpenAI-compatible'],
      body: RerankRequest,
      bodyLimit: limits.bodyBytes,
      jsonDepth: limits.jsonDepth,
      hashesBody: true,
      callsModels: true,
      takesIdempotencyKey: true,
      responses: { 200: { description: 'The ranked documents', schema: RerankResponse }, ...FAILURES },
      handle: (context) => governed(RERANK, toRerankInput(context.body), context, deps),
    }),
  ]
}

/** Documents are data of others, like tool results: a document with an attack is replaced by a notice. */
function toRerankInput(request: RerankRequest): RerankInput {
  requireModel(request)
  const { query, documents, top_n, return_documents } = request
  return {
    conversation: {
      system: '',
      messages: [
        { role: 'user', content: query },
        ...documents.map((content, at) => ({ role: 'tool' as const, toolCallId: `document_${at}`, content })),
      ],
    },
    // The explicit chain disables the key's failover defaults, because scores of different models are not comparable.
    chain: { models: [{ model: request.model as string }] },
    isOneModel: true,
    index: ZERO_KNOWLEDGE,
    policy: request.smltp_policy,
    shield: request.prompt_shield,
    userId: request.user_id,
    conversationId: undefined,
    stream: false,
    options: undefined,
    documents,
    top_n,
    return_documents,
    unknown: Object.keys(request)
      .filter((name) => !Object.hasOwn(RerankRequest.shape, name))
      .map((name) => name.slice(0, SHOWN_CHARS)),
  }
}

const SHOWN_CHARS = 100
