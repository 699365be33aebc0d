import { COMPLETIONS_PATH, type CompletionResponse } from '../../../../shared/wire/completions.ts'
import type { OpenAiError } from '../../../../shared/wire/openai.ts'
import { SSE_DONE, SSE_KEEP_ALIVE, sseFrame } from '../../../platform/http/sse.ts'
import { writingJson } from '../../../platform/text/json-writer.ts'
import type { Answer, Envelope, Finish } from '../../chat/answer-contract.ts'
import { JsonBody } from '../../chat/answer-rendering.ts'
import { toExtension } from '../../chat/extension.ts'
import { type StreamWording, streamInWords } from '../../chat/streamed-answer.ts'
import type { Surface } from '../../chat/surface.ts'
import { toUsage } from '../openai/response.ts'

/** Renders answers as completions. @param includeUsage whether a stream ends with a usage chunk */
export const completionsSurface = ({ includeUsage }: { includeUsage: boolean }): Surface => ({
  path: COMPLETIONS_PATH,
  errors: 'openai',
  isCompatible: true,
  whole: wholeAnswer,
  streamed: (envelope, stream) => streamInWords(completionsWording(envelope, includeUsage), stream),
  keepAlive: { frame: SSE_KEEP_ALIVE, opens: true },
})

const idsOf = ({ id, created, model }: Envelope) => ({
  id: `cmpl-${id.replace(/^req-/, '')}`,
  object: 'text_completion' as const,
  created,
  model,
})

const toChoice = (text: string, finish: Finish | null): CompletionResponse['choices'][number] => ({
  text,
  index: 0,
  logprobs: null,
  finish_reason: finish,
})

function wholeAnswer(envelope: Envelope): Answer {
  let text = ''
  const json = new JsonBody()
  return {
    add(parts) {
      for (const part of parts) if (part.type === 'text') text += part.text
      return true
    },
    drained: () => Promise.resolve(),
    close(finish, usage, isLarge) {
      const value = {
        ...idsOf(envelope),
        choices: [toChoice(text, finish)],
        usage: toUsage(usage),
        gateway: toExtension(envelope),
      } satisfies CompletionResponse
      return isLarge ? json.renderParts(writingJson(value)) : json.render(JSON.stringify(value))
    },
    // No byte has been sent yet, so the error itself becomes the response.
    fail: () => undefined,
    abandon: () => null,
    send: () => json.send(),
  }
}

function completionsWording(envelope: Envelope, includeUsage: boolean): StreamWording {
  let begun = false
  function chunk(text: string, finish: Finish | null = null): string {
    const gateway = begun ? {} : { gateway: toExtension(envelope) }
    begun = true
    return sseFrame({
      ...idsOf(envelope),
      choices: [toChoice(text, finish)],
      ...(includeUsage && { usage: null }),
      ...gateway,
    })
  }
  return {
    say(parts) {
      let frames = ''
      for (const part of parts) if (part.type === 'text') frames += chunk(part.text)
      return frames
    },
    end(finish, usage) {
      const last = chunk('', finish)
      const counted = includeUsage ? sseFrame({ ...idsOf(envelope), choices: [], usage: toUsage(usage) }) : ''
      return last + counted + SSE_DONE
    },
    fail: ({ message, reason, retryable, verdict, attempts }) =>
      sseFrame({
        success: false,
        error: { message, type: 'server_error', code: reason },
        retryable,
        request_id: envelope.id,
        ...verdict,
        ...(attempts && { attempts }),
      } satisfies OpenAiError),
  }
}
