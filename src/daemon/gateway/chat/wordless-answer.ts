import type { TokenUsage } from '../../models/provider.ts'
import { reply } from '../../platform/http/route.ts'
import { renderedJson } from './answer.ts'
import type { Answer } from './answer-contract.ts'

/** An answer in which nobody says a word: one JSON body, made at its end of what its maker has kept beside it. */
export function wordlessAnswer(toBody: (usage: TokenUsage) => object): Answer {
  let body = ''
  return {
    add: () => true,
    drained: () => Promise.resolve(),
    close(_, usage) {
      body = JSON.stringify(toBody(usage))
      return renderedJson(body)
    },
    send: () => reply(200, body),
    // Nothing has left yet, so the error itself becomes the answer.
    fail: () => undefined,
    abandon: () => null,
  }
}
