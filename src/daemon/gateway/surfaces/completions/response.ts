import { COMPLETIONS_PATH, type CompletionResponse } from '../../../../shared/wire/completions.ts'
import type { OpenAiError } from '../../../../shared/wire/openai.ts'
import type { ChatPart } from '../../../models/provider.ts'
import { SSE_DONE, SSE_KEEP_ALIVE, sseFrame } from '../../../platform/http/sse.ts'
import { writingJson } from '../../../platform/text/json-writer.ts'
import { type Answer, type Envelope, type Finish, finishOfChoice } from '../../chat/answer-contract.ts'
import { JsonBody } from '../../chat/answer-rendering.ts'
import { toExtension } from '../../chat/extension.ts'
import { type StreamWording, streamInWords } from '../../chat/streamed-answer.ts'
import type { Surface } from '../../chat/surface.ts'
import { toUsage } from '../openai/answer-members.ts'

/** Renders answers as completions. @param includeUsage whether a stream ends with a usage chunk */
export const completionsSurface = ({ includeUsage, choices }: { includeUsage: boolean; choices: number }): Surface => ({
  path: COMPLETIONS_PATH,
  errors: 'openai',
  isCompatible: true,
  whole: (envelope) => wholeAnswer(envelope, choices),
  streamed: (envelope, stream) => streamInWords(completionsWording(envelope, { includeUsage, choices }), stream),
  keepAlive: { frame: SSE_KEEP_ALIVE, opens: true },
})

const idsOf = ({ id, created, model }: Envelope) => ({
  id: `cmpl-${id.replace(/^req-/, '')}`,
  object: 'text_completion' as const,
  created,
  model,
})

const toChoice = (text: string, index: number, finish: Finish | null): CompletionResponse['choices'][number] => ({
  text,
  index,
  logprobs: null,
  finish_reason: finish,
})

/** One of the answers. `finish` is undefined until the answer ends. */
type Choice = { text: string; finish: Finish | undefined }

const createChoices = (count: number): Choice[] =>
  Array.from({ length: count }, () => ({ text: '', finish: undefined }))

/** Calls `add` for each part, with the index of its choice. */
function eachPart(parts: readonly ChatPart[], add: (index: number, part: ChatPart) => void): void {
  for (const part of parts) {
    if (part.type === 'choice') for (const own of part.parts) add(part.index, own)
    else add(0, part)
  }
}

function wholeAnswer(envelope: Envelope, count: number): Answer {
  const choices = createChoices(count)
  const json = new JsonBody()
  return {
    add(parts) {
      eachPart(parts, (index, part) => {
        const choice = choices[index] as Choice
        if (part.type === 'text') choice.text += part.text
        else if (part.type === 'end') choice.finish ??= finishOfChoice(part)
      })
      return true
    },
    drained: () => Promise.resolve(),
    close(finish, usage, isLarge) {
      const value = {
        ...idsOf(envelope),
        choices: choices.map((choice, index) => toChoice(choice.text, index, choice.finish ?? finish)),
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

function completionsWording(
  envelope: Envelope,
  { includeUsage, choices: count }: { includeUsage: boolean; choices: number },
): StreamWording {
  const choices = createChoices(count)
  let begun = false
  function chunk(text: string, index: number, finish: Finish | null = null): string {
    const gateway = begun ? {} : { gateway: toExtension(envelope) }
    begun = true
    return sseFrame({
      ...idsOf(envelope),
      choices: [toChoice(text, index, finish)],
      ...(includeUsage && { usage: null }),
      ...gateway,
    })
  }
  return {
    say(parts) {
      let frames = ''
      eachPart(parts, (index, part) => {
        if (part.type === 'text') frames += chunk(part.text, index)
        else if (part.type === 'end') (choices[index] as Choice).finish ??= finishOfChoice(part)
      })
      return frames
    },
    end(finish, usage) {
      const last = choices.map((choice, index) => chunk('', index, choice.finish ?? finish)).join('')
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
