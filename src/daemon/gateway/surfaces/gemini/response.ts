import {
  GEMINI_FILTERS,
  type GeminiCandidate,
  type GeminiFinishReason,
  type GenerateContentResponse,
  type UsageMetadata,
} from '../../../../shared/wire/gemini.ts'
import type { TokenUsage } from '../../../models/provider.ts'
import { googleError } from '../../../platform/http/google-error.ts'
import { writingJson } from '../../../platform/text/json-writer.ts'
import type { Answer, AnswerFault, Envelope, Finish } from '../../chat/answer-contract.ts'
import { JsonBody } from '../../chat/answer-rendering.ts'
import { toExtension } from '../../chat/extension.ts'
import { type StreamWording, streamInWords } from '../../chat/streamed-answer.ts'
import type { Surface } from '../../chat/surface.ts'
import { createPieces, joined } from './parts.ts'

type Form = {
  path: string
  /** The form of a stream: server-sent events, or one JSON array that arrives in pieces. */
  frames: 'sse' | 'array'
  showsThoughts: boolean
}

/** Older clients read every line as data, so a comment would break their stream. A piece may have no candidates. */
const EMPTY_PIECE = 'data: {}\n\n'

/** Renders answers in the form of Gemini's API. */
export const geminiSurface = (form: Form): Surface => ({
  path: form.path,
  errors: 'google',
  isCompatible: true,
  whole: (envelope) => wholeAnswer(envelope, form),
  streamed: (envelope, stream) => streamInWords(geminiWording(envelope, form), stream),
  keepAlive:
    form.frames === 'sse'
      ? { frame: EMPTY_PIECE, opens: true }
      : // White space may stand anywhere between the values of an array.
        { frame: '\n', opens: true, contentType: 'application/json' },
})

function wholeAnswer(envelope: Envelope, form: Form): Answer {
  const pieces = createPieces(form)
  let native = ''
  const json = new JsonBody()
  return {
    add(parts) {
      for (const part of parts) {
        pieces.add(part)
        if (part.type === 'end') native = part.nativeFinishReason
      }
      return true
    },
    drained: () => Promise.resolve(),
    close(finish, usage, isLarge) {
      const { parts, members } = pieces.take()
      const candidate: GeminiCandidate = {
        ...members,
        content: { role: 'model', parts: joined(parts) },
        finishReason: toFinishReason(finish, native),
        index: 0,
      }
      const value = {
        candidates: [candidate],
        usageMetadata: toUsage(usage),
        ...idsOf(envelope),
        gateway: toExtension(envelope),
      } satisfies GenerateContentResponse
      return isLarge ? json.renderParts(writingJson(value)) : json.render(JSON.stringify(value))
    },
    // No byte has been sent yet, so the error itself becomes the response.
    fail: () => undefined,
    abandon: () => null,
    send: () => json.send(),
  }
}

/** Renders parts as responses. Only the first response has the member `gateway`. */
function geminiWording(envelope: Envelope, { frames, showsThoughts }: Form): StreamWording {
  const pieces = createPieces({ showsThoughts })
  let native = ''
  let begun = false

  function frame(response: Pick<GenerateContentResponse, 'candidates' | 'usageMetadata' | 'error'>): string {
    const value = {
      ...response,
      ...idsOf(envelope),
      ...(!begun && { gateway: toExtension(envelope) }),
    } satisfies GenerateContentResponse
    const before = frames === 'sse' ? 'data: ' : begun ? ',\n' : '['
    return before + JSON.stringify(value) + (frames === 'sse' ? '\n\n' : '')
  }

  const last = frames === 'sse' ? '' : ']'

  return {
    say(parts) {
      for (const part of parts) {
        pieces.add(part)
        if (part.type === 'end') native = part.nativeFinishReason
      }
      const { parts: content, members } = pieces.take()
      if (content.length === 0 && Object.keys(members).length === 0) return ''
      const piece = frame({ candidates: [{ ...members, content: { role: 'model', parts: content }, index: 0 }] })
      begun = true
      return piece
    },
    end(finish, usage) {
      const candidate: GeminiCandidate = { finishReason: toFinishReason(finish, native), index: 0 }
      return frame({ candidates: [candidate], usageMetadata: toUsage(usage) }) + last
    },
    // Some clients read only `error`, and others only the finish reason. Older clients read neither. They throw an error
    // if a stream does not end with `data:`, and Google itself sends errors without it.
    fail(fault) {
      const error = toError(fault)
      const candidate: GeminiCandidate = { finishReason: 'OTHER', finishMessage: fault.message, index: 0 }
      const piece = frame({ candidates: [candidate], error })
      return frames === 'sse' ? `${piece}${JSON.stringify({ error })}\n\n` : piece + last
    },
  }
}

const idsOf = ({ id, model }: Envelope) => ({ modelVersion: model, responseId: id.replace(/^req-/, '') })

const FILTERS: ReadonlySet<string> = new Set(GEMINI_FILTERS)

/** Other providers filter without Google's reasons. */
function toFinishReason(finish: Finish, native: string): GeminiFinishReason {
  if (finish === 'stop') return 'STOP'
  if (finish === 'length') return 'MAX_TOKENS'
  return FILTERS.has(native) ? (native as GeminiFinishReason) : 'SAFETY'
}

export const toUsage = ({
  inputTokens,
  outputTokens,
  cacheReadTokens,
  reasoningTokens,
}: TokenUsage): UsageMetadata => ({
  promptTokenCount: inputTokens,
  candidatesTokenCount: Math.max(0, outputTokens - reasoningTokens),
  totalTokenCount: inputTokens + outputTokens,
  ...(reasoningTokens > 0 && { thoughtsTokenCount: reasoningTokens }),
  ...(cacheReadTokens > 0 && { cachedContentTokenCount: cacheReadTokens }),
})

const STATUSES = new Map<string, number>([
  ['bad_request', 400],
  ['content_filter', 400],
  ['context_length_exceeded', 400],
  ['provider_rejected', 400],
  ['content_blocked', 403],
  ['entitlement_refused', 403],
  ['rate_limit', 429],
  ['internal_error', 500],
  ['overloaded', 503],
  ['shutdown', 503],
  ['timeout', 504],
])

function toError({ reason, message, verdict }: AnswerFault) {
  const error = googleError({ status: STATUSES.get(reason) ?? 502, message, reason: reason.toUpperCase() })
  return { ...error, ...verdict }
}
