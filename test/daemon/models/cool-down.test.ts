import { expect, test } from 'vitest'
import { COOL_DOWN_MS, createCoolDowns, unchangedCoolDowns } from '../../../src/daemon/models/cool-down.ts'
import type { FailureReason } from '../../../src/daemon/models/provider.ts'
import { createFakeClock } from '../../fake-clock.ts'

/** The milliseconds until a target may be called again after this failure, or undefined if it may be called now. */
function coolDownAfter(reason: FailureReason, retryAfterSeconds?: number): number | undefined {
  const clock = createFakeClock()
  const coolDowns = createCoolDowns({ clock })
  coolDowns.failed('a/b', { reason, retryAfterSeconds })
  const endMs = coolDowns.endOf('a/b')
  expect(coolDowns.endOf('a/c')).toBeUndefined()
  if (endMs === undefined) return undefined
  clock.advance(endMs)
  expect(coolDowns.endOf('a/b')).toBeUndefined()
  return endMs
}

test('a rate limit cools down for Retry-After, within bounds', () => {
  expect(coolDownAfter('rate_limit', 42)).toBe(42_000)
  expect(coolDownAfter('rate_limit', 0)).toBe(COOL_DOWN_MS.min)
  expect(coolDownAfter('rate_limit', 86_400)).toBe(COOL_DOWN_MS.max)
  expect(coolDownAfter('rate_limit')).toBe(COOL_DOWN_MS.rateLimit)
})

test('a rejected key and a used-up account cool down too; other failures do not', () => {
  expect(coolDownAfter('auth_failed')).toBe(COOL_DOWN_MS.account)
  expect(coolDownAfter('quota_exhausted', 120)).toBe(120_000)
  for (const reason of ['server_error', 'timeout', 'bad_request', 'context_length', 'aborted'] as const)
    expect(coolDownAfter(reason)).toBeUndefined()
})

test('an answer ends the cool-down, unless its call began before', () => {
  const clock = createFakeClock()
  const coolDowns = createCoolDowns({ clock })
  const startedMs = clock.monotonic()
  clock.advance(1_000)
  coolDowns.failed('a/b', { reason: 'rate_limit', retryAfterSeconds: 60 })
  coolDowns.answered('a/b', startedMs)
  expect(coolDowns.endOf('a/b')).toBe(startedMs + 61_000)
  coolDowns.answered('a/b', clock.monotonic())
  expect(coolDowns.endOf('a/b')).toBeUndefined()
})

test('a further failure never shortens a cool-down', () => {
  const clock = createFakeClock()
  const coolDowns = createCoolDowns({ clock })
  const endMs = clock.monotonic() + 3_600_000
  coolDowns.failed('a/b', { reason: 'rate_limit', retryAfterSeconds: 3_600 })
  clock.advance(1_000)
  coolDowns.failed('a/b', { reason: 'rate_limit', retryAfterSeconds: undefined })
  expect(coolDowns.endOf('a/b')).toBe(endMs)
  clock.advance(3_599_000)
  coolDowns.failed('a/b', { reason: 'rate_limit', retryAfterSeconds: 5 })
  expect(coolDowns.endOf('a/b')).toBe(endMs + 5_000)
})

test('unchanged cool-downs show the others, and change none', () => {
  const clock = createFakeClock()
  const coolDowns = createCoolDowns({ clock })
  const unchanged = unchangedCoolDowns(coolDowns)
  unchanged.failed('a/c', { reason: 'rate_limit', retryAfterSeconds: 60 })
  expect(coolDowns.endOf('a/c')).toBeUndefined()
  coolDowns.failed('a/b', { reason: 'rate_limit', retryAfterSeconds: 60 })
  unchanged.answered('a/b', clock.monotonic())
  expect(unchanged.endOf('a/b')).toBe(coolDowns.endOf('a/b'))
  expect(coolDowns.endOf('a/b')).toBeDefined()
})
