// The targets of a request, and the order in which they are tried.
import { hash } from 'node:crypto'
import type { ModelTimeouts } from './config.ts'
import type { CallLocation, Provider } from './provider.ts'

/** A model of a provider, called with one key of the provider. */
export type Target = {
  /** `<provider>/<model>` */
  modelId: string
  provider: Provider
  /** The provider's name of the model. */
  model: string
  location: CallLocation
  /** The model's own time limits. */
  timeouts?: ModelTimeouts | undefined
  weight: number
  /**
   * Identifies the target in circuits and cool-downs: the model id and, if the provider has several keys, the number of
   * the key.
   */
  slot: string
}

/** Returns a number above 0 and at most 1 for a target. */
export type Draw = (target: Pick<Target, 'slot'>) => number

/**
 * Sorts targets for one request. A target comes first with the probability weight / sum of weights, and so does each
 * next target among the rest. If `draw` always returns the same number for a target, the order is always the same, and
 * removing a target does not change the order of the others. This is weighted rendezvous hashing.
 */
export function inWeightedOrder<T extends Pick<Target, 'slot' | 'weight'>>(targets: readonly T[], draw: Draw): T[] {
  if (targets.length < 2) return [...targets]
  return targets
    .map((target) => ({ target, arrival: -Math.log(draw(target)) / target.weight }))
    .sort((a, b) => a.arrival - b.arrival)
    .map(({ target }) => target)
}

/** A new random order for each request. */
export const randomDraw: Draw = () => 1 - Math.random()

const DRAWN_BYTES = 6
const DRAWS = 2 ** (8 * DRAWN_BYTES)

/** The same order for all requests with this text, on every daemon. */
export const stickyDraw =
  (text: string): Draw =>
  ({ slot }) =>
    (hash('sha256', `${slot}\0${text}`, 'buffer').readUIntBE(0, DRAWN_BYTES) + 1) / DRAWS
