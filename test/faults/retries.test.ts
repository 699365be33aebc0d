import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { RETRY_AFTER_MAX_SECONDS, RETRY_PAUSE_MS } from '../../src/daemon/gateway/governed/failover.ts'
import { contentFaults } from './content-faults.ts'
import { caseOf, type Expected, type Fault } from './fault.ts'
import { failedIn } from './outcome.ts'
import type { Play } from './raw-upstream.ts'
import { goodPlay, type Mode, nameOf, openStage, type Seen, type Stage, TIMEOUT_MS } from './stage.ts'
import { statusFaults } from './status-faults.ts'
import { transportFaults } from './transport-faults.ts'

const FAULTS: readonly Fault[] = [...transportFaults, ...statusFaults, ...contentFaults].filter(({ heavy }) => !heavy)

/** Whether a fault persists at the second attempt. */
type Lasting = 'stays' | 'passes'
type Run = {
  id: string
  title: string
  fault: Fault
  lasting: Lasting
  mode: Mode
  expected: Expected
  play: Play
  models: [faulty: string, good: string]
}

const RUNS: readonly Run[] = FAULTS.flatMap((fault, at) =>
  (['streamed', 'held', 'whole'] as const).flatMap((mode) => {
    const played = caseOf(fault, mode)
    // Held answers differ from streamed ones only for faults after the first text.
    if (!played || (mode === 'held' && !('breaks' in (fault.streamed?.expected ?? {})))) return []
    return (['stays', 'passes'] as const).flatMap((lasting): Run[] => {
      // Faults of an address are permanent.
      if (lasting === 'passes' && fault.place !== undefined) return []
      const id = `${at}-${mode}-${lasting}`
      const faulty = `${fault.place ?? 'raw'}/${id}`
      const title = `${fault.name}, ${mode}, ${lasting}`
      return [{ ...played, id, title, fault, lasting, mode, models: [faulty, `raw/${id}-good`] }]
    })
  }),
)

const seen = new Map<string, Seen>()
const bills = new Map<string, string[]>()
let stage: Stage

beforeAll(async () => {
  stage = await openStage({ failover: { sameModelRetries: 1 } })
  for (const run of RUNS) {
    arrange(run)
    seen.set(run.id, await stage.ask(run.models, run.mode))
    stage.gateway.log.length = 0
  }
  for (const { request_id: id, served_model: model } of await stage.gateway.usage()) {
    bills.set(id, [...(bills.get(id) ?? []), model])
  }
})

afterAll(() => stage.close())

/** Sets the upstream's behaviour for the models of a run. */
function arrange({ models: [faulty, next], lasting, mode, play }: Run): void {
  const { plays } = stage.raw
  const good = goodPlay(mode)
  plays.set(nameOf(next), good)
  let met = false
  plays.set(nameOf(faulty), (exchange) => {
    const isMet = lasting === 'stays' || !met
    met = true
    return (isMet ? play : good)(exchange)
  })
}

describe.each(RUNS)('$title', (run) => {
  test('is retried once if that may help and time remains, and is billed once', () => {
    const { lasting, fault, models, expected } = run
    const [faulty, next] = models
    const answer = seen.get(run.id)
    if (!answer) throw new Error(`${run.title} has not run`)
    const tries = triesOf(run, answer)
    if (fault.place === undefined) expect(stage.raw.asked.get(nameOf(faulty))).toBe(tries)
    expect(answer.ms).toBeLessThanOrEqual(models.length * TIMEOUT_MS)
    expect(answer.leaksDetail).toBe(false)
    const reason = failedOver(expected)
    if (reason === undefined) return void expect(stage.raw.asked.get(nameOf(next))).toBeUndefined()

    const helped = lasting === 'passes' && tries === 2
    const server = helped ? faulty : next
    const failures = Array(helped ? 1 : tries).fill([faulty, reason])
    expect(failedIn(answer)).toEqual(failures)
    expect(answer).toMatchObject({ status: 200, text: 'good', done: true, finish: 'stop', servedModel: server })
    expect(bills.get(answer.requestId)).toEqual([server])
  })
})

/** The reason for the next model. It may accept a prompt that is too long for this model. */
function failedOver(expected: Expected): string | undefined {
  if ('fails' in expected) return expected.fails
  return 'refuses' in expected && expected.refuses === 'context_length' ? 'context_length' : undefined
}

/** Expected number of attempts at the model with the fault. */
function triesOf({ expected, mode, fault, models: [faulty] }: Run, { attempts }: Seen): 1 | 2 {
  if (!('fails' in expected)) return 1
  const { fails, transient, retryAfter: [waitSeconds] = [] } = expected
  if (waitSeconds === undefined ? fails === 'rate_limit' : waitSeconds > RETRY_AFTER_MAX_SECONDS) return 1
  // Other failures may not pass quickly. A held answer that breaks has already taken the time of its first part.
  if (fails !== 'connection_error' && fails !== 'rate_limit' && !transient) return 1
  if (mode === 'held' && 'breaks' in (fault.streamed?.expected ?? {})) return 1
  const [first] = attempts
  expect(first).toMatchObject({ model: faulty, status: 'failed' })
  return (first?.latency_ms ?? 0) + Math.max(RETRY_PAUSE_MS, 1000 * (waitSeconds ?? 0)) < FIRST_TOKEN_MS ? 2 : 1
}

/** A retry must start before this time. */
const FIRST_TOKEN_MS = TIMEOUT_MS / 2

test('no model is called more than twice for one request', () => {
  for (const [name, times] of stage.raw.asked) expect([name, times > 2]).toEqual([name, false])
})
