import type { FailureReason } from '../../src/daemon/models/provider.ts'
import { CHAT_PATH, type FailoverAttempt } from '../../src/shared/wire/chat.ts'
import { MESSAGES_PATH, MessagesEvent } from '../../src/shared/wire/messages.ts'
import { OPENAI_CHAT_PATH, OpenAiChunk } from '../../src/shared/wire/openai.ts'
import { RESPONSES_PATH, ResponsesEvent } from '../../src/shared/wire/responses.ts'
import { type Answer, textOf, toFrames } from '../harness.ts'

/** The content of an answer, independent of the surface's format. */
export type AnswerContent = {
  text: string
  /** Undefined if the answer has no end. */
  finish: 'stop' | 'length' | 'content_filter' | undefined
  /** Whether the answer reports that it is complete. */
  done: boolean
  /** The error of a body or of the last frame. Undefined if another frame follows the error. */
  error: object | undefined
  servedModel: string | undefined
  attempts: readonly FailoverAttempt[]
}

type Asked = { models: readonly object[]; stream: boolean; redundancy?: object }

/** A chat surface and its format of errors. */
type FaultSurface = {
  path: string
  toBody(asked: Asked): object
  readStream(text: string): AnswerContent
  readBody(body: Answer['body']): AnswerContent
  errors: {
    /** The error of an answer that broke after its first text. */
    interrupted(reason: FailureReason, requestId: string): object
    rejected(reason: FailureReason, requestId: string): object
    exhausted(isLimit: boolean, requestId: string): object
  }
}

const NOTHING: AnswerContent = {
  text: '',
  finish: undefined,
  done: false,
  error: undefined,
  servedModel: undefined,
  attempts: [],
}
const messages = [{ role: 'user', content: 'hi' }]

const classic: FaultSurface = {
  path: CHAT_PATH,
  toBody: (asked) => ({ prompt: 'hi', index: 'Zero-Knowledge', ...asked }),
  readStream(text) {
    const { frames, done } = toFrames(text)
    // The usage frame says that the answer is complete, so a broken one must not have it.
    if (!done && frames.some(({ type }) => type === 'usage')) throw new Error('a broken answer has a usage frame')
    const said: AnswerContent = { ...NOTHING, text: textOf(frames), done }
    for (const frame of frames) {
      if (frame.type === 'metadata') {
        said.servedModel = frame.data.metadata.served_model
        said.attempts = frame.data.metadata.failover?.attempts ?? []
      }
      if (frame.type === 'chunk') said.finish = frame.data.choices[0]?.finish_reason ?? said.finish
      if (frame.type === 'error') said.error = frame.data
    }
    return said
  },
  readBody: (body) => ({
    text: body.choices?.[0]?.message.content ?? '',
    finish: body.choices?.[0]?.finish_reason,
    done: body.success,
    error: body.success ? undefined : body,
    servedModel: body.metadata?.served_model,
    attempts: body.attempts ?? body.metadata?.failover?.attempts ?? [],
  }),
  errors: {
    interrupted: (reason, requestId) => ({ error: 'Provider interrupted', reason, request_id: requestId }),
    rejected: (reason, requestId) => ({ error: 'Provider rejected the request', reason, request_id: requestId }),
    exhausted: (_, requestId) => ({ error: 'All model attempts failed', request_id: requestId }),
  },
}

const OPENAI_CODES = new Map<FailureReason, string>([
  ['context_length', 'context_length_exceeded'],
  ['content_filter', 'content_filter'],
])

const openAi: FaultSurface = {
  path: OPENAI_CHAT_PATH,
  toBody: (asked) => ({ messages, ...asked }),
  readStream(text) {
    const events = text.split('\n\n').slice(0, -1)
    const done = events.at(-1) === 'data: [DONE]'
    const said: AnswerContent = { ...NOTHING, done }
    for (const [at, event] of (done ? events.slice(0, -1) : events).entries()) {
      const frame = OpenAiChunk.parse(JSON.parse(event.replace(/^data: /, '')))
      if ('error' in frame) {
        if (at === events.length - 1) said.error = frame
        continue
      }
      said.text += frame.choices[0]?.delta.content ?? ''
      said.finish = toFinish(frame.choices[0]?.finish_reason) ?? said.finish
      if (!frame.gateway) continue
      said.servedModel = frame.gateway.served_model
      said.attempts = frame.gateway.failover?.attempts ?? []
    }
    return said
  },
  readBody: (body) => ({
    text: body.choices?.[0]?.message.content ?? '',
    finish: toFinish(body.choices?.[0]?.finish_reason),
    done: body.object === 'chat.completion',
    error: body.error && body,
    servedModel: body.gateway?.served_model,
    attempts: body.attempts ?? body.gateway?.failover?.attempts ?? [],
  }),
  errors: {
    interrupted: (reason) => ({ error: { type: 'server_error', code: reason } }),
    rejected: (reason, requestId) => ({
      error: { type: 'invalid_request_error', code: OPENAI_CODES.get(reason) ?? 'provider_rejected' },
      reason,
      request_id: requestId,
    }),
    exhausted: (isLimit, requestId) => ({
      error: { type: isLimit ? 'rate_limit_error' : 'server_error', code: 'all_models_failed' },
      request_id: requestId,
    }),
  },
}

/** Maps the accepted finish reasons. Any other, such as `tool_calls`, would be a fault. */
function toFinish(reason: string | null | undefined): AnswerContent['finish'] {
  return reason === 'stop' || reason === 'length' || reason === 'content_filter' ? reason : undefined
}

const STOP_REASONS = new Map<unknown, AnswerContent['finish']>([
  ['end_turn', 'stop'],
  ['max_tokens', 'length'],
  ['refusal', 'content_filter'],
])
const ANTHROPIC_TYPES = new Map<FailureReason, string>([
  ['rate_limit', 'rate_limit_error'],
  ['timeout', 'timeout_error'],
])
const anthropicError = (type: string, requestId: string) => ({ type: 'error', error: { type }, request_id: requestId })

const anthropic: FaultSurface = {
  path: MESSAGES_PATH,
  toBody: (asked) => ({ messages, max_tokens: 100, ...asked }),
  readStream(text) {
    const events = text.split('\n\n').slice(0, -1).map(toMessagesEvent)
    const said: AnswerContent = { ...NOTHING, done: events.at(-1)?.type === 'message_stop' }
    for (const [at, event] of events.entries()) {
      if (event.type === 'message_start') {
        said.servedModel = event.message.gateway.served_model
        said.attempts = event.message.gateway.failover?.attempts ?? []
      }
      if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') said.text += event.delta.text
      if (event.type === 'message_delta') said.finish = STOP_REASONS.get(event.delta.stop_reason)
      if (event.type === 'error' && at === events.length - 1) said.error = event
    }
    return said
  },
  readBody: (body) => ({
    text: body.content?.[0]?.text ?? '',
    finish: STOP_REASONS.get(body.stop_reason),
    done: body.type === 'message',
    error: body.type === 'error' ? body : undefined,
    servedModel: body.gateway?.served_model,
    attempts: body.attempts ?? body.gateway?.failover?.attempts ?? [],
  }),
  errors: {
    interrupted: (reason, requestId) => ({
      ...anthropicError(ANTHROPIC_TYPES.get(reason) ?? 'api_error', requestId),
      reason,
    }),
    rejected: (reason, requestId) => ({ ...anthropicError('invalid_request_error', requestId), reason }),
    exhausted: (isLimit, requestId) => anthropicError(isLimit ? 'rate_limit_error' : 'api_error', requestId),
  },
}

function toMessagesEvent(frame: string): MessagesEvent {
  const [, name, data = ''] = /^event: (\w+)\ndata: (.*)$/.exec(frame) ?? []
  const event = MessagesEvent.parse(JSON.parse(data))
  if (event.type !== name) throw new Error(`an event has another name than it says: ${frame}`)
  return event
}

type ResponseObject = Extract<ResponsesEvent, { response: unknown }>['response']

function toResponsesFinish({ status, incomplete_details: details }: ResponseObject): AnswerContent['finish'] {
  if (status === 'completed') return 'stop'
  if (status !== 'incomplete') return undefined
  return details?.reason === 'max_output_tokens' ? 'length' : 'content_filter'
}

const textIn = ({ output }: ResponseObject): string =>
  output.flatMap((item) => (item.type === 'message' ? item.content.map(({ text }) => text) : [])).join('')

const responses: FaultSurface = {
  path: RESPONSES_PATH,
  toBody: (asked) => ({ input: messages, ...asked }),
  readStream(text) {
    const events = text.split('\n\n').slice(0, -1).map(toResponsesEvent)
    const said: AnswerContent = { ...NOTHING }
    for (const [at, event] of events.entries()) {
      if (event.sequence_number !== at) throw new Error('the numbers of the events do not rise by one')
      if (event.type === 'response.output_text.delta') said.text += event.delta
      if (!('response' in event)) continue
      const { response } = event
      said.servedModel = response.gateway.served_model
      said.attempts = response.gateway.failover?.attempts ?? []
      if (at < events.length - 1) continue
      said.finish = toResponsesFinish(response)
      said.done = said.finish !== undefined
      if (event.type === 'response.failed') said.error = { error: response.error }
      else if (textIn(response) !== said.text) throw new Error('the last event has another text than the stream')
    }
    return said
  },
  readBody: (body) => ({
    text: body.object === 'response' ? textIn(body) : '',
    finish: body.object === 'response' ? toResponsesFinish(body) : undefined,
    done: body.object === 'response',
    error: body.error ? body : undefined,
    servedModel: body.gateway?.served_model,
    attempts: body.attempts ?? body.gateway?.failover?.attempts ?? [],
  }),
  errors: {
    ...openAi.errors,
    interrupted: (reason) => ({ error: { code: reason === 'rate_limit' ? 'rate_limit_exceeded' : 'server_error' } }),
  },
}

function toResponsesEvent(frame: string): ResponsesEvent {
  const [, name, data = ''] = /^event: (\S+)\ndata: (.*)$/.exec(frame) ?? []
  const event = ResponsesEvent.parse(JSON.parse(data))
  if (event.type !== name) throw new Error(`an event has another name than it says: ${frame}`)
  return event
}

export const SURFACES = { classic, OpenAI: openAi, Anthropic: anthropic, Responses: responses } as const
export type SurfaceName = keyof typeof SURFACES
