import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  admit,
  afterFailure,
  afterFirstToken,
  type Breaker,
  CIRCUIT_FAILURES,
  CIRCUIT_PROBE_MS,
  CIRCUIT_WINDOW_MS,
  type Circuit,
  createBreaker,
} from '../../../src/daemon/models/breaker.ts'
import { type FailureReason, OPERATOR_REASONS } from '../../../src/daemon/models/provider.ts'
import { FAILOVER_TRIGGERS } from '../../../src/shared/wire/chat.ts'
import { createFakeClock } from '../../fake-clock.ts'

const ALL = new Set<string>(FAILOVER_TRIGGERS)

function failing(count: number, reason: FailureReason = 'server_error', breaker?: Breaker) {
  const clock = createFakeClock()
  const watched = breaker ?? createBreaker({ clock })
  for (let failure = 0; failure < count; failure++) watched.failed('t', 'p/m', reason)
  return { clock, breaker: watched, skips: () => watched.skips('t', 'p/m', ALL) !== undefined }
}

describe('a model that keeps failing', () => {
  test.each(['connection_error', 'server_error', 'timeout'] as const)('is skipped after five times %s', (reason) => {
    expect(failing(CIRCUIT_FAILURES - 1, reason).skips()).toBe(false)
    expect(failing(CIRCUIT_FAILURES, reason).skips()).toBe(true)
  })

  test('is down from the fifth failure until the first token of a probe', () => {
    const { clock, breaker, skips } = failing(CIRCUIT_FAILURES - 1)
    const isDown = () => breaker.isDown('t', 'p/m')
    expect(isDown()).toBe(false)
    breaker.failed('t', 'p/m', 'server_error')
    expect([isDown(), breaker.isDown('other', 'p/m')]).toEqual([true, false])
    clock.advance(CIRCUIT_PROBE_MS.min)
    expect([skips(), isDown()]).toEqual([false, true])
    breaker.firstToken('t', 'p/m')
    expect(isDown()).toBe(false)
  })

  test.each(['rate_limit', 'bad_request', 'context_length', 'content_filter', 'aborted'] as const)(
    'is not marked as down by %s',
    (reason) => {
      expect(failing(50, reason).skips()).toBe(false)
    },
  )

  test('is not marked as down when an answer or a rejection came between its failures', () => {
    const { breaker, skips } = failing(CIRCUIT_FAILURES - 1)
    breaker.succeeded('t', 'p/m')
    breaker.failed('t', 'p/m', 'server_error')
    expect(skips()).toBe(false)
    const other = failing(CIRCUIT_FAILURES - 1)
    other.breaker.failed('t', 'p/m', 'rate_limit')
    other.breaker.failed('t', 'p/m', 'server_error')
    expect(other.skips()).toBe(false)
  })

  test('is not marked as down when its failures are more than a minute apart in total', () => {
    const { clock, breaker, skips } = failing(1)
    clock.advance(CIRCUIT_WINDOW_MS + 1)
    for (let failure = 1; failure < CIRCUIT_FAILURES; failure++) breaker.failed('t', 'p/m', 'timeout')
    expect(skips()).toBe(false)
    breaker.failed('t', 'p/m', 'timeout')
    expect(skips()).toBe(true)
  })

  test('is skipped only by its tenant, and only where its failure would fail over', () => {
    const { breaker } = failing(CIRCUIT_FAILURES, 'timeout')
    expect(breaker.skips('other', 'p/m', ALL)).toBeUndefined()
    expect(breaker.skips('t', 'p/n', ALL)).toBeUndefined()
    expect(breaker.skips('t', 'p/m', new Set(['rate_limit']))).toBeUndefined()
    expect(breaker.skips('t', 'p/m', new Set(['timeout']))).toBe('timeout')
  })

  test('is probed by one request after 5 s, then every 10 s', () => {
    const { clock, breaker, skips } = failing(CIRCUIT_FAILURES)
    const waits: number[] = []
    for (let probe = 0, startMs = 0; probe < 5; probe++) {
      while (skips()) clock.advance(1000)
      waits.push(clock.monotonic() - startMs)
      startMs = clock.monotonic()
      expect(skips()).toBe(true)
      breaker.failed('t', 'p/m', 'server_error')
    }
    expect(waits).toEqual([5_000, 10_000, 10_000, 10_000, 10_000])
  })

  test.each(OPERATOR_REASONS)('by %s is probed every 10 s where a server error would fail over', (reason) => {
    const { clock, breaker, skips } = failing(CIRCUIT_FAILURES, reason)
    expect(breaker.skips('t', 'p/m', new Set(['server_error']))).toBe(reason)
    expect(breaker.skips('t', 'p/m', new Set(['timeout', 'rate_limit', 'connection_error']))).toBeUndefined()
    for (let probe = 0; probe < 3; probe++) {
      clock.advance(CIRCUIT_PROBE_MS.max - 1)
      expect(skips()).toBe(true)
      clock.advance(1)
      expect(skips()).toBe(false)
      breaker.failed('t', 'p/m', reason)
    }
  })

  test('by a server error is probed after 5 s, although its key was rejected once before', () => {
    const { clock, breaker, skips } = failing(1, 'auth_failed')
    for (let failure = 1; failure < CIRCUIT_FAILURES; failure++) breaker.failed('t', 'p/m', 'server_error')
    expect(skips()).toBe(true)
    clock.advance(CIRCUIT_PROBE_MS.min)
    expect(skips()).toBe(false)
  })

  test('gets its requests back with the first token of a probe, and loses them with the next failure', () => {
    const { clock, breaker, skips } = failing(CIRCUIT_FAILURES)
    clock.advance(CIRCUIT_PROBE_MS.min)
    expect(skips()).toBe(false)
    breaker.firstToken('t', 'p/m')
    expect([skips(), skips()]).toEqual([false, false])
    breaker.failed('t', 'p/m', 'connection_error')
    expect(skips()).toBe(true)
    clock.advance(2 * CIRCUIT_PROBE_MS.min)
    expect(skips()).toBe(false)
    breaker.firstToken('t', 'p/m')
    breaker.succeeded('t', 'p/m')
    for (let failure = 1; failure < CIRCUIT_FAILURES; failure++) breaker.failed('t', 'p/m', 'server_error')
    expect(skips()).toBe(false)
  })
})

describe('for any sequence of results', () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant('fail' as const) }),
    fc.record({ kind: fc.constant('token' as const) }),
    fc.record({ kind: fc.constant('good' as const) }),
    fc.record({ kind: fc.constant('ask' as const) }),
    fc.record({ kind: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 40_000 }) }),
  )

  test('a model is probed at least every 10 s, opens only after five failures, and uses little memory', () => {
    const property = fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      let circuit: Circuit | undefined
      let nowMs = 0
      let failuresInARow = 0
      for (const each of steps) {
        const wasOpen = circuit?.probeAtMs !== undefined
        if (each.kind === 'wait') nowMs += each.ms
        else if (each.kind === 'good') {
          circuit = undefined
          failuresInARow = 0
        } else if (each.kind === 'token') circuit &&= afterFirstToken(circuit, nowMs)
        else if (each.kind === 'ask') circuit &&= admit(circuit, nowMs).circuit
        else {
          circuit = afterFailure(circuit, 'server_error', nowMs)
          failuresInARow += 1
          if (!wasOpen && circuit.probeAtMs !== undefined) {
            expect(failuresInARow).toBeGreaterThanOrEqual(CIRCUIT_FAILURES)
          }
        }
        if (!circuit) continue
        expect(circuit.failedAtMs.length).toBeLessThanOrEqual(CIRCUIT_FAILURES)
        if (circuit.probeAtMs === undefined) continue
        expect(circuit.probeAtMs - nowMs).toBeLessThanOrEqual(CIRCUIT_PROBE_MS.max)
        expect(admit(circuit, nowMs + CIRCUIT_PROBE_MS.max).skip).toBe(false)
      }
    })
    fc.assert(property, { numRuns: 500 })
  })

  test('exactly one request is the probe each time', () => {
    const property = fc.property(
      fc.integer({ min: 0, max: 120_000 }),
      fc.integer({ min: 2, max: 20 }),
      (ms, asking) => {
        const { clock, skips } = failing(CIRCUIT_FAILURES)
        clock.advance(ms)
        const asked = Array.from({ length: asking }, skips).filter((skipped) => !skipped)
        expect(asked).toHaveLength(ms >= CIRCUIT_PROBE_MS.min ? 1 : 0)
      },
    )
    fc.assert(property, { numRuns: 100 })
  })
})
