import { randomUUID } from 'node:crypto'
import { ATTEMPT_TIMEOUT_MS, MODELS_PER_CHAIN } from '../../../shared/spec-limits.ts'
import type { ChatMetadata, ChatResponse } from '../../../shared/wire/chat.ts'
import type { ApiRequest, OpenAnswer } from '../../client.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT } from '../../errors.ts'
import { toJson } from '../../formats.ts'
import { redirected, timedOut, toHttpError, unfinished } from '../../http-errors.ts'
import { createProgress, type Progress } from '../../progress.ts'
import { incomplete, readFrames } from './frames.ts'
import { failoverLines, finishLine, sourcesLine, usageLine } from './notes.ts'

/** Until the first frame, which the gateway sends with the first token. */
const FIRST_FRAME_TIMEOUT_MS = 60_000
/** The longest a gateway may try for one answer: every model of a chain at its slowest. */
const WHOLE_ANSWER_TIMEOUT_MS = ATTEMPT_TIMEOUT_MS.max * MODELS_PER_CHAIN

const MEMBERS: Record<keyof ChatResponse, true> = {
  success: true,
  id: true,
  object: true,
  created: true,
  model: true,
  choices: true,
  usage: true,
  metadata: true,
}

const VIEW = {
  columns: [
    { path: 'id' },
    { path: 'model' },
    { path: 'choices.0.finish_reason', title: 'FINISH' },
    { path: 'choices.0.message.content', title: 'ANSWER' },
  ],
  idPath: 'id',
  members: Object.keys(MEMBERS),
}

export type Ask = {
  body: { stream: boolean; index: string }
  /** Whom the answer is waited for, for the person who watches. */
  model: string
  /** How the answer is shown: text as it comes, raw frames, or the finished envelope in some format. */
  show: 'text' | 'frames' | 'envelope'
  idempotencyKey: string | undefined
  usage: boolean
  sources: boolean
}

/** One question on its way; `begun` once a part of its answer was received. */
type Run = { begun: boolean; elapsed(): number; progress: Progress }

/** Puts one question to the gateway and prints the answer; throws when no complete answer came. */
export async function ask(context: CliContext, input: Ask): Promise<void> {
  const { io } = context
  const [api, output, settings] = await Promise.all([context.api(), context.output(), context.settings()])
  // An answer is billed, so a field that it cannot have is refused before.
  if (input.show === 'envelope') output.assertShowable(VIEW)
  if (settings.verbose) await context.note(`index: ${input.body.index}`)
  const startedAt = io.clock.monotonic()
  const progress = createProgress(io, settings)
  const run: Run = { begun: false, elapsed: () => io.clock.monotonic() - startedAt, progress }
  const { timeoutFlagMs } = settings
  const limit = answerLimit(context, api.baseUrl, timeoutFlagMs)
  const request: ApiRequest = {
    method: 'POST',
    path: 'chat/completions',
    json: input.body,
    // The key makes a repetition after a broken connection safe: the gateway returns the first result, billed once.
    headers: {
      accept: input.body.stream ? 'text/event-stream' : 'application/json',
      'idempotency-key': input.idempotencyKey ?? randomUUID(),
    },
    repeatable: true,
    timeoutMs: timeoutFlagMs ?? (input.body.stream ? FIRST_FRAME_TIMEOUT_MS : WHOLE_ANSWER_TIMEOUT_MS),
    signal: limit.signal,
  }
  progress.show(`Waiting for ${input.model}`)
  try {
    if (input.body.stream) await showStream(context, await api.open(request), input, run)
    else await showWhole(context, request, input, run)
  } catch (error) {
    if (!limit.signal.aborted || io.signal.aborted) throw error
    throw run.begun && timeoutFlagMs !== undefined ? unfinished(timeoutFlagMs, undefined) : limit.signal.reason
  } finally {
    progress.end()
    limit.end()
  }
}

/** `--timeout` bounds the answer as a whole, also while it streams. */
function answerLimit({ io }: CliContext, baseUrl: string, timeoutMs: number | undefined) {
  const controller = new AbortController()
  const timer =
    timeoutMs === undefined
      ? undefined
      : io.clock.after(timeoutMs, () => controller.abort(timedOut(baseUrl, timeoutMs)))
  return { signal: controller.signal, end: () => timer?.cancel() }
}

async function showWhole(context: CliContext, request: ApiRequest, input: Ask, run: Run): Promise<void> {
  const [api, output] = await Promise.all([context.api(), context.output()])
  const { body, raw } = await api.send<ChatResponse>(request).finally(run.progress.end)
  if (input.show === 'envelope') await output.one(body, VIEW, raw)
  else {
    const write = output.textStream()
    await write(body.choices[0]?.message.content ?? '')
    await write('\n')
  }
  for (const line of failoverLines(body.metadata)) await context.note(line)
  const { finish_reason } = body.choices[0] ?? {}
  await noteEnd(context, input, { metadata: body.metadata, usage: body.usage, finish_reason, totalMs: run.elapsed() })
}

async function showStream(context: CliContext, answer: OpenAnswer, input: Ask, run: Run): Promise<void> {
  const [api, output] = await Promise.all([context.api(), context.output()])
  const { status, requestId, headers } = answer
  if (status >= 300 && status < 400) throw redirected(api.baseUrl, headers.location)
  if (status !== 200) throw toHttpError({ status, requestId, headers, raw: await api.read(answer) })
  if (headers['content-type']?.startsWith('text/event-stream') !== true) {
    throw new CliError(EXIT.error, `${api.baseUrl} did not answer with a stream`, { code: 'NOT_A_GATEWAY', requestId })
  }

  const write = output.textStream()
  const seen: Seen = {}
  let lastChar = '\n'
  try {
    for await (const { frame, json } of readFrames(api.parts(answer, { bounded: false }), requestId)) {
      run.begun = true
      run.progress.end()
      if (input.show === 'frames') await output.text(json.includes('\n') ? toJson(frame, ONE_LINE) : `${json}\n`)
      if (frame.type === 'metadata') {
        seen.metadata = frame.data.metadata
        for (const line of failoverLines(frame.data.metadata)) await context.note(line)
      } else if (frame.type === 'chunk') {
        seen.firstTokenMs ??= run.elapsed()
        const [choice] = frame.data.choices
        seen.finish_reason = choice?.finish_reason ?? seen.finish_reason
        const text = choice?.delta.content ?? ''
        if (input.show === 'text' && text !== '') {
          await write(text)
          lastChar = text.slice(-1)
        }
      } else if (frame.type === 'usage') {
        seen.usage = frame.data.usage
      } else if (frame.type === 'error') {
        const { message, error, request_id } = frame.data
        throw incomplete(`${message} (${error})`, request_id ?? requestId, error)
      }
    }
  } catch (error) {
    // The message must not hang on to the end of half a sentence.
    if (output.terminal && lastChar !== '\n') await write('\n')
    throw error
  } finally {
    answer.body.destroy()
  }
  if (input.show === 'text') await write('\n')
  await noteEnd(context, input, { ...seen, totalMs: run.elapsed() })
}

const ONE_LINE = { indent: 0, terminal: false }

type Seen = {
  metadata?: ChatMetadata
  usage?: { prompt_tokens: number; completion_tokens: number }
  finish_reason?: string | undefined
  firstTokenMs?: number
}

async function noteEnd(context: CliContext, input: Ask, seen: Seen & { totalMs: number }): Promise<void> {
  const finish = finishLine(seen.finish_reason)
  if (finish !== undefined) await context.note(finish)
  const { metadata, usage } = seen
  if (metadata === undefined) return
  if (input.sources) await context.note(sourcesLine(metadata))
  if (input.usage && usage !== undefined) await context.note(usageLine({ ...seen, metadata, usage }))
}
