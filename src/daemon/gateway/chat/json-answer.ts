import type { TokenUsage } from '../../models/provider.ts'
import { reply } from '../../platform/http/route.ts'
import type { Answer } from './answer-contract.ts'
import { renderedJson } from './answer-rendering.ts'

/** An answer without text. It is one JSON body, which `toBody` builds at the end. */
export function jsonAnswer(toBody: (usage: TokenUsage) => object): Answer {
  let body = ''
  return {
    add: () => true,
    drained: () => Promise.resolve(),
    close(_, usage) {
      body = JSON.stringify(toBody(usage))
      return renderedJson(body)
    },
    send: () => reply(200, body),
    // No byte has been sent yet, so the error itself becomes the response.
    fail: () => undefined,
    abandon: () => null,
  }
}
