import { randomUUID } from 'node:crypto'
import { ATTEMPT_TIMEOUT_MS, FIRST_TOKEN_TIMEOUT_MS, MODELS_PER_CHAIN } from '../../../shared/spec-limits.ts'
import type { ChatMetadata, ChatResponse, CommitPoint } from '../../../shared/wire/chat.ts'
import type { ApiRequest, OpenAnswer } from '../../api/client.ts'
import { redirected, timedOut, toHttpError, unfinished } from '../../api/http-errors.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT } from '../../errors.ts'
import { incomplete, type ReceivedFrame, readFrames } from './frames.ts'
import { failoverLines } from './notes.ts'

/** Until the first frame, which the gateway sends with the first token: by its own limits, of the last model of a chain. */
const FIRST_FRAME_TIMEOUT_MS = (MODELS_PER_CHAIN - 1) * FIRST_TOKEN_TIMEOUT_MS.default + FIRST_TOKEN_TIMEOUT_MS.last
/** The longest a gateway may try for one answer: every model of a chain at its slowest. */
const WHOLE_ANSWER_TIMEOUT_MS = ATTEMPT_TIMEOUT_MS.max * MODELS_PER_CHAIN

export type Question = {
  body: { stream: boolean; redundancy?: { commit?: CommitPoint } }
  /** The same key returns the first answer, billed once; one is made up when there is none, but not beside `stop`. */
  idempotencyKey: string | undefined
  /** Ends the request at the gateway too, e.g. with Ctrl-C in a session: without a key, whose answer others may wait for. */
  stop?: AbortSignal
}

/** Called while the answer comes, each awaited before more is read. */
export type Listener = {
  text?(text: string): Promise<void>
  frame?(received: ReceivedFrame): Promise<void>
}

/** An answer that is complete. */
export type Answer = {
  text: string
  metadata?: ChatMetadata
  usage?: { prompt_tokens: number; completion_tokens: number }
  finish_reason?: string | undefined
  firstTokenMs?: number
  totalMs: number
  /** The response as it was sent, when it was not streamed. */
  whole?: { body: ChatResponse; raw: Buffer }
}

/**
 * Puts one question to the gateway and hands on its answer; models that failed before are noted. Throws when no complete
 * answer came: exit 8 for one that broke off, `stop`'s reason when it was stopped.
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
    // The key makes a repetition after a broken connection safe: the gateway returns the first result, billed once.
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

/** An answer that is held back to its end comes as late as one that is not streamed. */
const firstFrameTimeoutMs = ({ stream, redundancy }: Question['body']): number =>
  stream && redundancy?.commit !== 'complete' ? FIRST_FRAME_TIMEOUT_MS : WHOLE_ANSWER_TIMEOUT_MS

/** One question on its way; `begun` once a part of its answer was received. */
type Run = { begun: boolean; elapsed(): number }

/** `--timeout` bounds the answer as a whole, also while it streams. */
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
  await noteFailover(context, body.metadata)
  if (text !== '') await onText?.(text)
  const { metadata, usage } = body
  return { text, metadata, usage, finish_reason: choice?.finish_reason, totalMs: run.elapsed(), whole: { body, raw } }
}

async function readStream(context: CliContext, answer: OpenAnswer, listener: Listener, run: Run): Promise<Answer> {
  const api = await context.api()
  const { status, requestId, headers } = answer
  if (status >= 300 && status < 400) throw redirected(api.baseUrl, headers.location)
  if (status !== 200) throw toHttpError({ status, requestId, headers, raw: await api.read(answer) })
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
        await noteFailover(context, seen.metadata)
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
        throw incomplete(`${message} (${error})`, request_id ?? requestId, error)
      }
    }
  } finally {
    answer.body.destroy()
  }
  return { ...seen, totalMs: run.elapsed() }
}

async function noteFailover(context: CliContext, metadata: ChatMetadata): Promise<void> {
  for (const line of failoverLines(metadata)) await context.note(line)
}
