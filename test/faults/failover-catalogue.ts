// The sixteen faults of the public failover benchmark (failoverbench/failoverbench, methodology v0.1), and its verdicts.
import type { FailureReason } from '../../src/daemon/models/provider.ts'
import { chunk, counted, DONE, finish, json, LAST_CHUNK, STREAM_HEAD, word } from './plays.ts'
import type { Play, RawExchange } from './raw-upstream.ts'

const WORDS = 60
const WORD_MS = 15
/** The time of a whole answer. */
export const ANSWER_MS = WORDS * WORD_MS
const STALL_MS = 30_000
/** Longer timers belong to background work of the daemon. */
export const LONGEST_PAUSE_MS = 20_000
/** The model of S15 is down for this time. */
export const OUTAGE_MS = 60_000

/** The whole answer, which every healthy model sends. */
export const ANSWER = 'word '.repeat(WORDS)
const words = (count: number) => chunk(word('word ').repeat(count))
const TAIL = Buffer.concat([chunk(finish('stop')), chunk(counted)])

/** Starts a stream, and sends its first words in the time that the model needs for them. */
async function begin(exchange: RawExchange, count: number): Promise<void> {
  await exchange.send(STREAM_HEAD)
  await exchange.send(words(count))
  await exchange.pass(count * WORD_MS)
}

/** A whole answer. `end` comes after the finish reason and the usage. */
function healthy({ end = chunk(DONE), firstTokenMs = 0 } = {}): Play {
  return async (exchange) => {
    if (firstTokenMs > 0) {
      await exchange.send(STREAM_HEAD)
      await exchange.pass(firstTokenMs)
      await exchange.send(words(WORDS))
    } else await begin(exchange, WORDS)
    await exchange.send(TAIL)
    await exchange.send(end)
    await exchange.send(LAST_CHUNK)
  }
}

const HEALTHY = healthy()
const error = (status: number, code: string, headers?: Record<string, string>): Play =>
  json({ error: { message: 'secret detail', type: 'some_error', code } }, status, headers)

/** The first call fails. Later calls are answered. */
const once =
  (fault: Play): Fault =>
  (attempt) =>
    attempt === 1 ? fault : HEALTHY
const always =
  (fault: Play): Fault =>
  () =>
    fault

const cut: Play = async (exchange) => {
  await begin(exchange, 40)
  exchange.fin()
}

/** The behaviour of a model at its first, second, … call. `ms` is the time since the first. */
type Fault = (attempt: number, ms: number) => Play

/** The provider's and the client's view of one request. */
export type Metrics = {
  /** Whether the client received the whole answer, or an error. An answer that only looks whole is neither. */
  result: 'whole' | 'error' | 'truncated'
  ms: number
  /** The times of the calls to the model with the fault. */
  calledAtMs: readonly number[]
  fallbackCalls: number
  /** The model that the answer names. */
  model: string | undefined
  hasUsage: boolean
  /** Whether another request was answered after this one. */
  isAlive: boolean
}

export type Verdict = 'pass' | 'partial' | 'safe' | 'fail'

type Check = (metrics: Metrics) => boolean

/** The exact outcome of a scenario. `failed` lists the reasons of the failed attempts of the model with the fault. */
export type Outcome = {
  verdict: Verdict
  result: Metrics['result']
  ms: number
  calls: number
  fallbackCalls: 0 | 1
  failed: readonly FailureReason[]
}

export type Scenario = {
  id: string
  title: string
  fault: Fault
  /** The ideal result if it is not the whole answer. */
  ideal?: 'error'
  /** If one of these fails, so does the scenario. */
  required?: readonly Check[]
  /** If one of these fails, a rescued request counts as `partial`. */
  advisory?: readonly Check[]
  expected: Outcome
  /** The outcome with `commit: "complete"`, if it differs. */
  complete?: Outcome
}

/** The verdict on one request. */
export function verdictOf({ ideal, required = [], advisory = [] }: Scenario, metrics: Metrics): Verdict {
  const holds = (check: Check) => check(metrics)
  if (metrics.result === 'truncated' || !required.every(holds)) return 'fail'
  if (metrics.result !== (ideal ?? 'whole')) return ideal ? 'partial' : 'safe'
  return advisory.every(holds) ? 'pass' : 'partial'
}

const calls =
  (min: number, max: number): Check =>
  ({ calledAtMs: { length } }) =>
    length >= min && length <= max
const callsWithin =
  (windowMs: number, max: number): Check =>
  ({ calledAtMs: [first = 0, ...later] }) =>
    later.filter((atMs) => atMs - first < windowMs).length < max
const within =
  (limitMs: number): Check =>
  ({ ms }) =>
    ms <= limitMs
const secondCallAfter =
  (ms: number): Check =>
  ({ calledAtMs: [first = 0, second = 0] }) =>
    second - first >= ms
const alive: Check = ({ isAlive }) => isAlive
const whole: Check = ({ result }) => result === 'whole'
const usage: Check = ({ hasUsage }) => hasUsage

/** The same model answers after one retry. */
const retried = (reason: FailureReason): Outcome => ({
  verdict: 'pass',
  result: 'whole',
  ms: 250 + ANSWER_MS,
  calls: 2,
  fallbackCalls: 0,
  failed: [reason],
})
/** The fallback answers after one call per failure to the model with the fault. `ms` is the time until then. */
const failedOver = (ms: number, ...failed: FailureReason[]): Outcome => ({
  verdict: 'pass',
  result: 'whole',
  ms: ms + ANSWER_MS,
  calls: failed.length,
  fallbackCalls: 1,
  failed,
})
/** The stream ends with an error frame, because the client has already received text. */
const interrupted = (ms: number): Outcome => ({
  verdict: 'safe',
  result: 'error',
  ms,
  calls: 1,
  fallbackCalls: 0,
  failed: [],
})

export const SCENARIOS: readonly Scenario[] = [
  {
    id: 'S01',
    title: '429 once, with Retry-After: 2',
    fault: once(error(429, 'rate_limit_exceeded', { 'retry-after': '2' })),
    required: [callsWithin(1_500, 2)],
    advisory: [calls(2, 9), secondCallAfter(1_800)],
    expected: { ...retried('rate_limit'), ms: 2_000 + ANSWER_MS },
  },
  {
    id: 'S02',
    title: '429 without Retry-After',
    fault: always(error(429, 'rate_limit_exceeded')),
    required: [callsWithin(3_000, 4), calls(1, 6)],
    expected: failedOver(0, 'rate_limit'),
  },
  {
    id: 'S03',
    title: '500 once',
    fault: once(error(500, 'server_error')),
    advisory: [calls(2, 9)],
    expected: retried('server_error'),
  },
  {
    id: 'S04',
    title: '503 without end',
    fault: always(error(503, 'overloaded')),
    required: [calls(1, 6)],
    expected: failedOver(250, 'server_error', 'server_error'),
  },
  {
    id: 'S05',
    title: 'a reset before the head, once',
    fault: once((exchange) => exchange.reset()),
    expected: retried('connection_error'),
  },
  {
    id: 'S06',
    title: 'no response',
    fault: always(() => {}),
    required: [within(100_000)],
    advisory: [calls(1, 1)],
    expected: failedOver(12_000, 'timeout'),
  },
  {
    id: 'S07',
    title: 'a first token after 20 s',
    fault: always(healthy({ firstTokenMs: LONGEST_PAUSE_MS })),
    advisory: [within(15_000)],
    // The limit includes the answer of the fallback.
    expected: failedOver(12_000, 'timeout'),
  },
  {
    id: 'S08',
    title: 'a stream that is cut after 40 of 60 words',
    fault: always(cut),
    expected: interrupted(40 * WORD_MS),
    complete: failedOver(40 * WORD_MS, 'connection_error'),
  },
  {
    id: 'S09',
    title: 'a stream that stalls for 30 s after 20 words, then ends',
    fault: always(async (exchange) => {
      await begin(exchange, 20)
      // In two steps, because of LONGEST_PAUSE_MS.
      await exchange.pass(STALL_MS / 2)
      await exchange.pass(STALL_MS / 2)
      exchange.fin()
    }),
    required: [within(45_000), alive],
    expected: interrupted(20 * WORD_MS + STALL_MS),
    complete: failedOver(20 * WORD_MS + STALL_MS, 'connection_error'),
  },
  {
    id: 'S10',
    title: 'an event that is not JSON after 10 words',
    fault: always(async (exchange) => {
      await begin(exchange, 10)
      await exchange.send(chunk('data: {"choices": [{"delta": {"content": \n\n'))
      await exchange.send(words(WORDS - 10))
      await exchange.send(TAIL)
      await exchange.send(LAST_CHUNK)
    }),
    required: [alive],
    advisory: [whole],
    expected: interrupted(10 * WORD_MS),
    complete: failedOver(10 * WORD_MS, 'server_error'),
  },
  {
    id: 'S11',
    title: 'a stream without [DONE]',
    fault: always(healthy({ end: Buffer.alloc(0) })),
    required: [within(8_000)],
    advisory: [usage],
    expected: { verdict: 'pass', result: 'whole', ms: ANSWER_MS, calls: 1, fallbackCalls: 0, failed: [] },
  },
  {
    id: 'S12',
    title: 'a prompt that is too long for the model',
    fault: always(error(400, 'context_length_exceeded')),
    required: [calls(1, 1)],
    expected: failedOver(0, 'context_length'),
  },
  {
    id: 'S13',
    title: 'a rejection by the content filter',
    fault: always(error(400, 'content_policy_violation')),
    ideal: 'error',
    required: [calls(1, 1)],
    expected: { verdict: 'pass', result: 'error', ms: 0, calls: 1, fallbackCalls: 0, failed: [] },
  },
  {
    id: 'S14',
    // The gateway asks the fallback from the start, and never sends it the beginning of an answer to continue.
    title: 'a stream that is cut, with a fallback that continues no answer',
    fault: always(cut),
    expected: interrupted(40 * WORD_MS),
    complete: failedOver(40 * WORD_MS, 'connection_error'),
  },
  {
    id: 'S16',
    title: '503 without end: the answer names the fallback and has its usage',
    fault: always(error(503, 'overloaded')),
    required: [calls(1, 6), ({ model }) => model === FALLBACK],
    advisory: [usage],
    expected: failedOver(250, 'server_error', 'server_error'),
  },
]

/** S15: twenty requests, one every four seconds, to a model that is down for the first minute. */
export const FLAP = {
  requests: 20,
  everyMs: 4_000,
  fault: ((_, ms) => (ms < OUTAGE_MS ? error(503, 'overloaded') : HEALTHY)) satisfies Fault,
  /** The model must answer again within this time after its recovery. */
  recoversWithinMs: 30_000,
}

export const FALLBACK = 'raw/fallback'
export const HEALTHY_PLAY = HEALTHY
