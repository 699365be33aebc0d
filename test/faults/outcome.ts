import { expect } from 'vitest'
import type { Case, Fault } from './fault.ts'
import type { Mode, Seen } from './stage.ts'
import { SURFACES, type SurfaceName } from './surfaces.ts'

export type Position = 'first of two' | 'last of two' | 'only model'

export type Run = Case & {
  id: string
  title: string
  fault: Fault
  surface: SurfaceName
  mode: Mode
  position: Position
  /** Models in order: the model with the fault and the healthy one. */
  models: string[]
  faulty: string
}

/** The expected result of a run, by fault and position of its model. */
export function outcomeOf({ surface, expected, position, models, faulty, fault }: Run) {
  const { errors } = SURFACES[surface]
  const earlier = position === 'last of two' ? [[models[0], 'server_error']] : []
  const neighboursAsked = (asked: 0 | 1) =>
    models.map((model) => (model === faulty ? reached : model === models[0] ? 1 : asked))
  // No request arrives at an address without a listener.
  const reached = fault.place === undefined ? 1 : 0

  if ('answers' in expected) {
    return {
      asked: neighboursAsked(0),
      billed: [{ model: faulty, outcome: OUTCOMES[expected.finish ?? 'stop'] }],
      check(answer: Seen) {
        const { answers: text, finish: ending = 'stop' } = expected
        expect(answer).toMatchObject({ status: 200, error: undefined, done: true, finish: ending })
        expect(failedIn(answer)).toEqual(earlier)
        expect(answer.servedModel).toBe(faulty)
        expect(answer.text).toEqual(typeof text === 'string' ? text : expect.stringMatching(text))
      },
    }
  }
  if ('breaks' in expected) {
    return {
      asked: neighboursAsked(0),
      billed: [{ model: faulty, outcome: expected.outcome }],
      check(answer: Seen) {
        const { breaks: reason, after: text } = expected
        const error = errors.interrupted(reason, answer.requestId)
        expect(answer).toMatchObject({ status: 200, done: false, finish: undefined, servedModel: faulty, error })
        expect(answer.text).toEqual(typeof text === 'string' ? text : expect.stringMatching(text))
      },
    }
  }
  const mayReadMore = 'refuses' in expected && expected.refuses === 'context_length' && position === 'first of two'
  if ('refuses' in expected && !mayReadMore) {
    return {
      asked: neighboursAsked(0),
      billed: [],
      check(answer: Seen) {
        if (position !== 'last of two') {
          const error = errors.rejected(expected.refuses, answer.requestId)
          return void expect(answer).toMatchObject({ status: 400, done: false, text: '', error })
        }
        // A second model that does not support the request must not hide that the first model was down.
        const error = errors.exhausted(false, answer.requestId)
        expect(answer).toMatchObject({ status: 502, done: false, error })
        expect(failedIn(answer)).toEqual([...earlier, [faulty, expected.refuses]])
      },
    }
  }
  const reason = 'refuses' in expected ? expected.refuses : expected.fails
  const failed = [...earlier, [faulty, reason]]
  if (position === 'first of two') {
    return {
      asked: neighboursAsked(1),
      billed: [{ model: models[1], outcome: 'complete' }],
      check(answer: Seen) {
        expect(answer).toMatchObject({
          status: 200,
          error: undefined,
          done: true,
          finish: 'stop',
          text: 'good',
        })
        expect(failedIn(answer)).toEqual(failed)
        expect(answer.servedModel).toBe(models[1])
      },
    }
  }
  return {
    asked: neighboursAsked(0),
    billed: [],
    check(answer: Seen) {
      const isLimit = position === 'only model' && reason === 'rate_limit'
      const error = errors.exhausted(isLimit, answer.requestId)
      expect(answer).toMatchObject({ status: isLimit ? 429 : 502, done: false, text: '', error })
      expect(failedIn(answer)).toEqual(failed)
      if (position !== 'only model' || 'refuses' in expected || !expected.retryAfter)
        return void expect(answer.retryAfter).toBeUndefined()
      const [min, max] = expected.retryAfter
      expect(Number(answer.retryAfter)).toBeGreaterThanOrEqual(min)
      expect(Number(answer.retryAfter)).toBeLessThanOrEqual(max)
    },
  }
}

/** The failed models with their reasons. */
export const failedIn = ({ attempts }: Seen) =>
  attempts.filter(({ status }) => status === 'failed').map(({ model, reason }) => [model, reason])

const OUTCOMES = { stop: 'complete', length: 'length', content_filter: 'filtered' } as const
