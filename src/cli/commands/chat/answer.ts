/** Sends one chat request and reads its answer, streamed or whole. */
import { randomUUID } from 'node:crypto'
import { ATTEMPT_TIMEOUT_MS, FIRST_TOKEN_TIMEOUT_MS, MODELS_PER_CHAIN } from '../../../shared/spec-limits.ts'
import type { ChatMetadata, ChatResponse, CommitPoint } from '../../../shared/wire/chat.ts'
import type { ApiRequest, OpenAnswer } from '../../api/client.ts'
import { codeOfLabel, redirected, timedOut, unfinished } from '../../api/http-errors.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT } from '../../errors.ts'
import { incomplete, type ReceivedFrame, readFrames } from './frames.ts'
import { changeLines, failoverLines } from './notes.ts'

/**
 * Timeout for the first frame: the limit of the last model, and a minute for earlier models that fail and for waiting
 * in queues.
 */
const FIRST_FRAME_TIMEOUT_MS = FIRST_TOKEN_TIMEOUT_MS.last + 60_000
/** The maximum duration of one answer, reached if every model of the chain runs until its timeout. */
const WHOLE_ANSWER_TIMEOUT_MS = ATTEMPT_TIMEOUT_MS.max * MODELS_PER_CHAIN

export type Question = {
  body: { stream: boolean; redundancy?: { commit?: CommitPoint } }
  /**
   * A request that repeats the key of an earlier request gets the earlier answer and is not billed. By default, the key
   * is random; if `stop` is set, no key is sent by default.
   */
  idempotencyKey: string | undefined
  /**
   * Aborting this signal also aborts the request at the gateway. Exception: if the request has an idempotency key, the
   * gateway continues, because other requests with this key may be waiting for the answer.
   */
  stop?: AbortSignal
}

/** These functions are called while the answer arrives. The client awaits each call before it reads the next chunk. */
export type Listener = {
  text?(text: string): Promise<void>
  frame?(received: ReceivedFrame): Promise<void>
}

/** A complete answer. */
export type Answer = {
  text: string
  metadata?: ChatMetadata
  usage?: { prompt_tokens: number; completion_tokens: number }
  finish_reason?: string | undefined
  firstTokenMs?: number
  totalMs: number
  /** The complete response of a request that was not streamed. */
  whole?: { body: ChatResponse; raw: Buffer }
}

/**
 * Sends one chat request and passes its answer to the listener. Notes failed models and changed fields on stderr. If the answer is
 * truncated, throws an error with exit code 8. If `stop` ended the answer, throws the abort reason of `stop`.
 */
export async function receive(context: CliContext, question: Question, listener: Listener): Promise<Answer> {
  const { io } = context
  const [api, { timeoutFlagMs }] = await Promise.all([context.api(), context.settings()])
  const { body, idempotencyKey, stop } = question
  const key = idempotencyKey ?? (stop === undefined ? randomUUID() : undefined)
  const startedAt = io.clock.monotonic()
  const run: Run = { begun: false, elapsed: () => io.clock.monotonic() - startedAt }
  const limit = answerLimit(context, api.baseUrl, timeoutFlagMs)
  const request: ApiRequest = {
    method: 'POST',
    path: 'chat/completions',
    json: body,
    headers: {
      accept: body.stream ? 'text/event-stream' : 'application/json',
      ...(key !== undefined && { 'idempotency-key': key }),
    },
    // If the request has an idempotency key, a retry returns the first result and is not billed again.
    repeatable: key !== undefined,
    timeoutMs: timeoutFlagMs ?? firstFrameTimeoutMs(body),
    signal: stop === undefined ? limit.signal : AbortSignal.any([limit.signal, stop]),
  }
  try {
    if (body.stream) return await readStream(context, await api.open(request), listener, run)
    return await readWhole(context, request, listener, run)
  } catch (error) {
    if (io.signal.aborted) throw error
    if (stop?.aborted) throw stop.reason
    if (!limit.signal.aborted) throw error
    throw run.begun && timeoutFlagMs !== undefined ? unfinished(timeoutFlagMs, undefined) : limit.signal.reason
  } finally {
    limit.end()
  }
}

/** With `commit: complete`, the first frame arrives only when the whole answer is ready. */
const firstFrameTimeoutMs = ({ stream, redundancy }: Question['body']): number =>
  stream && redundancy?.commit !== 'complete' ? FIRST_FRAME_TIMEOUT_MS : WHOLE_ANSWER_TIMEOUT_MS

/** A request in flight. `begun` becomes true when the first chunk of the answer arrives. */
type Run = { begun: boolean; elapsed(): number }

/** Applies `--timeout` to the whole answer, even if the answer is streamed. */
function answerLimit({ io }: CliContext, baseUrl: string, timeoutMs: number | undefined) {
  const controller = new AbortController()
  const timer =
    timeoutMs === undefined
      ? undefined
      : io.clock.after(timeoutMs, () => controller.abort(timedOut(baseUrl, timeoutMs)))
  return { signal: controller.signal, end: () => timer?.cancel() }
}

async function readWhole(context: CliContext, request: ApiRequest, { text: onText }: Listener, run: Run) {
  const api = await context.api()
  const { body, raw } = await api.send<ChatResponse>(request)
  const [choice] = body.choices
  const text = choice?.message.content ?? ''
  await noteAnswer(context, body.metadata)
  if (text !== '') await onText?.(text)
  const { metadata, usage } = body
  return { text, metadata, usage, finish_reason: choice?.finish_reason, totalMs: run.elapsed(), whole: { body, raw } }
}

async function readStream(context: CliContext, answer: OpenAnswer, listener: Listener, run: Run): Promise<Answer> {
  const api = await context.api()
  const { status, requestId, headers } = answer
  if (status >= 300 && status < 400) throw redirected(api.baseUrl, headers.location)
  if (status !== 200) throw api.toError({ status, requestId, headers, raw: await api.read(answer) })
  if (headers['content-type']?.startsWith('text/event-stream') !== true) {
    throw new CliError(EXIT.error, `${api.baseUrl} did not answer with a stream`, { code: 'NOT_A_GATEWAY', requestId })
  }

  const seen: Omit<Answer, 'totalMs'> = { text: '' }
  try {
    for await (const received of readFrames(api.parts(answer, { bounded: false }), requestId)) {
      const { frame } = received
      run.begun = true
      await listener.frame?.(received)
      if (frame.type === 'metadata') {
        seen.metadata = frame.data.metadata
        await noteAnswer(context, seen.metadata)
      } else if (frame.type === 'chunk') {
        seen.firstTokenMs ??= run.elapsed()
        const [choice] = frame.data.choices
        seen.finish_reason = choice?.finish_reason ?? seen.finish_reason
        const text = choice?.delta.content ?? ''
        seen.text += text
        if (text !== '') await listener.text?.(text)
      } else if (frame.type === 'usage') {
        seen.usage = frame.data.usage
      } else if (frame.type === 'error') {
        const { message, error, request_id } = frame.data
        throw incomplete(`${message} (${error})`, request_id ?? requestId, codeOfLabel(error))
      }
    }
  } finally {
    answer.body.destroy()
  }
  return { ...seen, totalMs: run.elapsed() }
}

async function noteAnswer(context: CliContext, metadata: ChatMetadata): Promise<void> {
  for (const line of [...failoverLines(metadata), ...changeLines(metadata)]) await context.note(line)
}
