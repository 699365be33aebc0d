import { expect, test } from 'vitest'
import { inWeightedOrder, randomDraw, stickyDraw } from '../../../src/daemon/models/targets.ts'

const WEST = { slot: 'west/gpt-5', weight: 70 }
const EAST = { slot: 'east/gpt-5', weight: 30 }

/** The share of requests whose first target is WEST, in percent. */
function westShare(draws: number, drawOf: (request: number) => Parameters<typeof inWeightedOrder>[1]): number {
  let west = 0
  for (let request = 0; request < draws; request++) {
    if (inWeightedOrder([EAST, WEST], drawOf(request))[0] === WEST) west++
  }
  return (100 * west) / draws
}

/** A seeded generator of numbers above 0 and at most 1, so that the test has the same result in every run. */
function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return (((mixed ^ (mixed >>> 14)) >>> 0) + 1) / 2 ** 32
  }
}

test('10,000 draws over weights of 70 and 30 are within two points of them', () => {
  const draw = seeded(1)
  expect(Math.abs(westShare(10_000, () => draw) - 70)).toBeLessThan(2)
})

test('10,000 conversations are within two points of the weights', () => {
  expect(Math.abs(westShare(10_000, (request) => stickyDraw(`tenant\0conversation-${request}`)) - 70)).toBeLessThan(2)
})

test('the random draw uses both targets, and its numbers have a logarithm', () => {
  const share = westShare(1_000, () => randomDraw)
  expect(share).toBeGreaterThan(50)
  expect(share).toBeLessThan(90)
  for (let at = 0; at < 1_000; at++) expect(Number.isFinite(Math.log(randomDraw(WEST)))).toBe(true)
})

test('targets after the first are ordered by their weights too', () => {
  const third = { slot: 'north/gpt-5', weight: 10 }
  const draw = seeded(7)
  const seconds = Array.from({ length: 10_000 }, () => inWeightedOrder([WEST, EAST, third], draw))
    .filter(([first]) => first === WEST)
    .map(([, second]) => second)
  const east = seconds.filter((second) => second === EAST).length / seconds.length
  // Without WEST, the weights are 30 and 10.
  expect(east).toBeGreaterThan(0.72)
  expect(east).toBeLessThan(0.78)
})

test('a conversation keeps its order, and loses only the targets that are removed', () => {
  const targets = ['a', 'b', 'c', 'd'].map((slot) => ({ slot, weight: 1 }))
  for (let conversation = 0; conversation < 50; conversation++) {
    const draw = stickyDraw(`t\0${conversation}`)
    const order = inWeightedOrder(targets, draw)
    expect(inWeightedOrder([...targets].reverse(), draw)).toEqual(order)
    const gone = targets[1]
    const left = targets.filter((target) => target !== gone)
    expect(inWeightedOrder(left, draw)).toEqual(order.filter((target) => target !== gone))
  }
})
