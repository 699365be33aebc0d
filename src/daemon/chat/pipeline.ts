import type { Clock } from '../../shared/time.ts'
import type { ChatRequest } from '../../shared/wire/chat.ts'
import type { Db } from '../db/database.ts'
import type { Reply, RequestContext } from '../http/route.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { Log } from '../log.ts'
import type { ProviderRegistry } from '../providers/registry.ts'
import { type Admitted, admit } from './admit.ts'
import { type Envelope, streamedAnswer, wholeAnswer } from './answer.ts'
import { type OpenAnswer, openAnswer } from './complete.ts'
import { readAnswer } from './ending.ts'
import { type Grounded, groundCall } from './ground-call.ts'
import type { ReplaySlot } from './idempotency.ts'
import { settle } from './settle.ts'

export type ChatDeps = { db: Db; providers: ProviderRegistry; ledger: Ledger; clock: Clock; log: Log }

/**
 * One chat request from checked body to bill. Returns the reply, or undefined when the answer was streamed.
 * @param replay where the answer is kept when the request carried an Idempotency-Key.
 * @throws GatewayError for a refusal, RequestAborted when the client left before the first word.
 */
export async function runChat(
  request: ChatRequest,
  context: RequestContext,
  deps: ChatDeps,
  replay: ReplaySlot | undefined,
): Promise<Reply | undefined> {
  const startedMs = deps.clock.monotonic()
  // Whoever sent an Idempotency-Key will come back for the answer, so it is brought to its end and paid for once.
  const signal = replay ? context.shutdown : context.signal
  const admitted = await admit(request, context.caller, deps) // who pays; which models, index and policy
  const grounded = await groundCall(admitted, deps) // passages and sources, or none for Zero-Knowledge
  const opened = await openAnswer(admitted.chain, grounded.call, signal, deps) // the first model to speak
  const envelope = toEnvelope(context.requestId, deps.clock.now(), admitted, grounded, opened)
  const answer = admitted.stream ? streamedAnswer(envelope, context, replay !== undefined) : wholeAnswer(envelope)
  const ending = await readAnswer(opened, answer, signal) // passes the parts on until the answer ends
  return settle({ context, admitted, grounded, opened, answer, ending, startedMs, replay }, deps) // commit, last bytes
}

function toEnvelope(
  id: string,
  nowMs: number,
  { chain, conversationId, index, policy }: Admitted,
  { ragEnabled, documentsRetrieved, sources }: Grounded,
  { attempt, attempts }: OpenAnswer,
): Envelope {
  return {
    id,
    created: Math.floor(nowMs / 1000),
    model: attempt.modelId,
    metadata: {
      conversation_id: conversationId,
      index_used: index.name,
      smltp_policy_used: policy.name,
      smltp_policy_source: policy.source,
      smltp_policy_hash: policy.hash,
      prompt_shield_policy: null,
      served_model: attempt.modelId,
      requested_model: chain.attempts[0].modelId,
      ...(chain.attempts.length > 1 && { failover: { occurred: attempts.length > 1, attempts } }),
      rag_enabled: ragEnabled,
      documents_retrieved: documentsRetrieved,
      sources,
    },
  }
}
