import { describe, expect, test } from 'vitest'
import { SAME_MODEL_RETRIES } from '../../src/shared/spec-limits.ts'
import type { CommitPoint, FailoverAttempt } from '../../src/shared/wire/chat.ts'
import type { Answer } from '../harness.ts'
import {
  ANSWER,
  ANSWER_MS,
  FALLBACK,
  FLAP,
  HEALTHY_PLAY,
  LONGEST_PAUSE_MS,
  type Metrics,
  OUTAGE_MS,
  type Outcome,
  SCENARIOS,
  type Scenario,
  type Verdict,
  verdictOf,
} from './failover-catalogue.ts'
import { createPatientClock } from './patient-clock.ts'
import { nameOf, openStage, type Stage } from './stage.ts'
import { SURFACES } from './surfaces.ts'

const { readStream, readBody } = SURFACES.OpenAI

/** The daemon's sweep for webhooks. All other timers up to the longest pause of a fault belong to a request. */
const SWEEP_MS = 5_000

const openDefaults = () =>
  openStage(
    { failover: { sameModelRetries: SAME_MODEL_RETRIES.default } },
    createPatientClock((ms) => ms <= LONGEST_PAUSE_MS && ms !== SWEEP_MS),
  )

type Received = Pick<Metrics, 'result' | 'ms' | 'model' | 'hasUsage'> & { attempts: readonly FailoverAttempt[] }

/** Sends the request of the benchmark: a stream of the OpenAI interface with a fallback. */
async function request(stage: Stage, model: string, commit: CommitPoint | undefined): Promise<Received> {
  const { answer, ms } = await stage.send('OpenAI', {
    model,
    messages: [{ role: 'user', content: 'hi' }],
    stream: true,
    stream_options: { include_usage: true },
    ...(model !== FALLBACK && { fallback_models: [FALLBACK] }),
    ...(commit && { redundancy: { commit } }),
  })
  const { text, done, error, attempts } = isStream(answer) ? readStream(answer.text) : readBody(answer.body)
  const isWhole = done && error === undefined && text === ANSWER
  return {
    result: isWhole ? 'whole' : error ? 'error' : 'truncated',
    ms,
    model: /"model":"([^"]+)"/.exec(answer.text)?.[1],
    hasUsage: /"usage":\{/.test(answer.text),
    attempts,
  }
}

const isStream = ({ headers }: Answer) => String(headers['content-type']).startsWith('text/event-stream')

/** Runs one scenario on a new daemon. */
async function run({ id, fault }: Scenario, commit?: CommitPoint): Promise<{ metrics: Metrics; received: Received }> {
  const stage = await openDefaults()
  const { clock, raw } = stage
  const model = `raw/${id}`
  const calledAtMs: number[] = []
  raw.plays.set(nameOf(FALLBACK), HEALTHY_PLAY)
  raw.plays.set(nameOf(model), (exchange) => {
    const nowMs = clock.monotonic()
    calledAtMs.push(nowMs)
    return fault(calledAtMs.length, nowMs)(exchange)
  })
  const received = await request(stage, model, commit)
  const fallbackCalls = raw.asked.get(nameOf(FALLBACK)) ?? 0
  const isAlive = (await request(stage, FALLBACK, undefined)).result === 'whole'
  await stage.close()
  return { received, metrics: { ...received, calledAtMs, fallbackCalls, isAlive } }
}

/** The attempts that the answer lists. A broken stream lists only the model that began it. */
function attemptsOf({ failed, result, fallbackCalls }: Outcome, model: string): object[] {
  const served = { model: fallbackCalls ? FALLBACK : model, status: 'served' }
  const failures = failed.map((reason) => ({ model, status: 'failed', reason }))
  return result === 'error' && failed.length > 0 ? failures : [...failures, served]
}

describe.each([
  ['by default', undefined],
  ['with commit: "complete"', 'complete' as const],
])('%s', (_, commit) => {
  const verdicts = new Map<string, Verdict>()

  test.each(SCENARIOS)('$id $title', async (scenario) => {
    const expected = (commit && scenario.complete) || scenario.expected
    const { metrics, received } = await run(scenario, commit)
    const { result, ms, calledAtMs, fallbackCalls } = metrics
    const verdict = verdictOf(scenario, metrics)
    verdicts.set(scenario.id, verdict)
    const { verdict: expectedVerdict, failed: _failed, ...measured } = expected
    expect({ result, ms, calls: calledAtMs.length, fallbackCalls }).toEqual(measured)
    if (scenario.ideal !== 'error') {
      expect(received.attempts).toEqual(
        attemptsOf(expected, `raw/${scenario.id}`).map((attempt) => ({ ...attempt, latency_ms: expect.any(Number) })),
      )
    }
    expect(verdict).toBe(expectedVerdict)
  })

  test('S15 a model that is down for a minute: the fallback answers, and the model is used again soon', async () => {
    const stage = await openDefaults()
    const { clock, raw } = stage
    const startMs = clock.monotonic()
    const callsAtMs: number[] = []
    raw.plays.set(nameOf(FALLBACK), HEALTHY_PLAY)
    raw.plays.set('S15', (exchange) => {
      const nowMs = clock.monotonic() - startMs
      callsAtMs.push(nowMs)
      return FLAP.fault(callsAtMs.length, nowMs)(exchange)
    })
    const results: [Metrics['result'], ms: number, model: string | undefined][] = []
    for (let at = 0; at < FLAP.requests; at++) {
      clock.advance(startMs + at * FLAP.everyMs - clock.monotonic())
      const { result, ms, model } = await request(stage, 'raw/S15', commit)
      results.push([result, ms, model])
    }
    await stage.close()
    // Two requests are retried. With the fifth failure the circuit opens, and every later call is a probe.
    expect(callsAtMs.slice(0, 9)).toEqual([0, 250, 4_000, 4_250, 8_000, 16_000, 28_000, 40_000, 52_000])
    expect(callsAtMs.slice(9)).toEqual([64_000, 68_000, 72_000, 76_000])
    expect(results).toEqual([
      ...Array(2).fill(['whole', 250 + ANSWER_MS, FALLBACK]),
      ...Array(14).fill(['whole', ANSWER_MS, FALLBACK]),
      ...Array(4).fill(['whole', ANSWER_MS, 'raw/S15']),
    ])
    const isRecovered = callsAtMs.some((ms) => ms >= OUTAGE_MS && ms <= OUTAGE_MS + FLAP.recoversWithinMs)
    verdicts.set('S15', isRecovered && results.every(([result]) => result === 'whole') ? 'pass' : 'fail')
    expect(verdicts.get('S15')).toBe('pass')
  })

  test('every scenario has its verdict', () => {
    const count = (verdict: Verdict) => [...verdicts.values()].filter((each) => each === verdict).length
    expect([count('pass'), count('partial'), count('safe'), count('fail')]).toEqual(
      commit ? [16, 0, 0, 0] : [12, 0, 4, 0],
    )
  })
})
