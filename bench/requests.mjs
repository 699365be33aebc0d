// Measures CPU time per request and per streamed chunk of the gateway, the bare proxy and, with --portkey, Portkey's
// gateway. The benchmark alternates the candidates, so other load on the machine affects all of them alike.
// Run: npm run bench
import { setTimeout as sleep } from 'node:timers/promises'
import { BenchError, buildLoadGenerator, buildProject } from './build.mjs'
import { checkAnswer, startBare, startGateway, startMock, startPortkey } from './candidates.mjs'
import { countBroken, runLoad, SETTLE_SECONDS, untilStill } from './load.mjs'
import { busyCpuUs, describeMachine, processCpuUs, processMemoryMib } from './machine.mjs'
import { withSession } from './session.mjs'
import { figure, machineLine, median, table } from './tables.mjs'

// Chunks of the single stream are 2 ms apart. With 20 ms, the figures would mainly show the timer delays of an idle
// process.
const CASES = [
  { name: 'json-1', connections: 1 },
  { name: 'json-50', connections: 50 },
  { name: 'json-200', connections: 200 },
  { name: 'sse-1', connections: 1, stream: { chunks: 50, intervalMs: 2 } },
  { name: 'sse-50', connections: 50, stream: { chunks: 50, intervalMs: 20 } },
  { name: 'sse-200', connections: 200, stream: { chunks: 50, intervalMs: 20 } },
]

/** Portkey runs only these cases, because running every case would take too much of the time budget. */
const PORTKEY_CASES = ['json-50', 'sse-50']
// After the first request, V8 compiles on other threads for several seconds. This compilation counts as CPU time. The
// warm-up uses the same code paths as the cases, at a higher rate.
const WARM_UP = [
  { name: 'json-50', connections: 50 },
  { name: 'sse-warm', connections: 100, stream: { chunks: 50, intervalMs: 2 } },
]

const FULL = { rounds: 5, jsonSeconds: 2, streamSeconds: 3, warmUpRuns: 10, budgetSeconds: 600 }
const QUICK = { rounds: 2, jsonSeconds: 1, streamSeconds: 2, warmUpRuns: 3, budgetSeconds: 120 }
const REPEATS = 2
/**
 * Limit for the CPU use of other processes, in percent of one CPU. If other processes exceed this limit during a run
 * and time allows, the run is repeated.
 */
const DISTURBED_PCT = 20
/** Pause between two runs, so that aborted streams of the previous run can end. */
const PAUSE_MS = 150
const BETWEEN_MS = PAUSE_MS + SETTLE_SECONDS * 1000

/**
 * @typedef {{case: string, candidate: string, round: number, cpuUs: number, perSecond: number, p50Us: number,
 *   p99Us: number, delayP50Us: number, delayP99Us: number, broken: number, foreignPct: number}} Run
 *   cpuUs and perSecond count requests, or chunks of a stream. p50Us and p99Us measure the whole answer, or the first
 *   chunk of a stream. The delay of a chunk is its time from the upstream to the client.
 */

/** @returns {Promise<Run>} */
async function measure({ loadBinary, mock }, candidate, kase, seconds, round) {
  if (kase.stream) await mock.shape(kase.stream)
  const busy = busyCpuUs()
  const ours = processCpuUs(mock.pid)
  const own = process.cpuUsage()
  const result = await runLoad(loadBinary, candidate, kase, seconds, { settleSeconds: SETTLE_SECONDS })
  const { user, system } = process.cpuUsage(own)
  const known = result.watched_total_us + result.own_cpu_us + processCpuUs(mock.pid) - ours + user + system
  const foreignUs = Math.max(0, busyCpuUs() - busy - known)
  const units = kase.stream ? result.chunks : result.completed
  const shown = kase.stream ? result.first_chunk : result.latency
  return {
    case: kase.name,
    candidate: candidate.name,
    round,
    cpuUs: result.watched_cpu_us / units,
    perSecond: units / result.seconds,
    p50Us: shown.p50,
    p99Us: shown.p99,
    delayP50Us: result.delay.p50,
    delayP99Us: result.delay.p99,
    // A run without any response counts as broken.
    broken: countBroken(result) + (units === 0 ? 1 : 0),
    foreignPct: foreignUs / ((result.seconds + SETTLE_SECONDS) * 1e4),
  }
}

/**
 * Runs the case up to three times and returns the least disturbed run. `mayRepeat` returns true if there is time for
 * another run.
 */
async function measureUndisturbed(mayRepeat, take) {
  let best = await take()
  for (let repeat = 0; repeat < REPEATS && best.foreignPct > DISTURBED_PCT && mayRepeat(); repeat++) {
    const again = await take()
    if (again.broken || again.foreignPct < best.foreignPct) best = again
    if (again.broken) break
  }
  return best
}

/** Warms up the JIT compiler. Throws an error before the measurement if a candidate returns broken responses. */
async function warmUp(bench, candidates, runs) {
  for (const candidate of candidates) {
    await checkAnswer(bench.mock, candidate)
    for (const kase of WARM_UP) {
      await untilStill(async (seconds) => {
        const run = await measure(bench, candidate, kase, seconds, -1)
        if (run.broken) throw new BenchError(brokenMessage(run, candidate))
        return run.cpuUs
      }, runs)
    }
  }
}

const brokenMessage = (run, candidate) =>
  `${run.candidate} had ${run.broken} broken responses in ${run.case} (not 2xx, truncated, or connection lost). Its output:\n${candidate.child.output()}`

async function takeRounds(bench, candidates, plan, deadlineMs) {
  const secondsOf = (kase) => (kase.stream ? plan.streamSeconds : plan.jsonSeconds)
  const takesPart = (kase) => candidates.filter(({ name }) => name !== 'portkey' || PORTKEY_CASES.includes(kase.name))
  const roundMs = CASES.reduce((sum, kase) => sum + takesPart(kase).length * (secondsOf(kase) * 1000 + BETWEEN_MS), 0)
  const runs = []
  for (let round = 0; round < plan.rounds; round++) {
    const roundsLeft = plan.rounds - round - 1
    let leftMs = roundMs * (1 + roundsLeft)
    for (const kase of CASES) {
      const seconds = secondsOf(kase)
      // The order alternates by round. Otherwise each candidate would always run after the same other candidate.
      const order = round % 2 ? takesPart(kase).reverse() : takesPart(kase)
      for (const candidate of order) {
        leftMs -= seconds * 1000 + BETWEEN_MS
        const mayRepeat = () => performance.now() + leftMs + seconds * 1000 < deadlineMs
        const run = await measureUndisturbed(mayRepeat, () => measure(bench, candidate, kase, seconds, round))
        console.error(
          `${round + 1}/${plan.rounds} ${run.case.padEnd(8)} ${run.candidate.padEnd(7)} ${figure(run.cpuUs, 1)} µs CPU, ${figure(run.perSecond)}/s, other processes ${figure(run.foreignPct)} %`,
        )
        runs.push(run)
        if (run.broken) throw new BenchError(brokenMessage(run, candidate))
        await sleep(PAUSE_MS)
      }
    }
  }
  return runs
}

/** Returns the medians of each case over its undisturbed runs, or over all runs if all were disturbed. */
function summarise(runs) {
  const undisturbed = (run) => run.foreignPct <= DISTURBED_PCT
  return CASES.map((kase) => {
    const of = (name) => {
      const all = runs.filter((run) => run.case === kase.name && run.candidate === name)
      const clean = all.filter(undisturbed)
      const used = clean.length > 0 ? clean : all
      const middle = (field) => median(used.map((run) => run[field]))
      return {
        cpuUs: middle('cpuUs'),
        perSecond: middle('perSecond'),
        p50Us: middle('p50Us'),
        p99Us: middle('p99Us'),
        delayP50Us: middle('delayP50Us'),
        delayP99Us: middle('delayP99Us'),
        runs: all.length,
        undisturbedRuns: clean.length,
      }
    }
    const bare = of('bare')
    const gateway = of('gateway')
    const portkey = of('portkey')
    return {
      case: kase.name,
      streamed: kase.stream !== undefined,
      bare,
      gateway,
      ratio: gateway.cpuUs / bare.cpuUs,
      addedP99Us: gateway.p99Us - bare.p99Us,
      ...(portkey.runs > 0 && { portkey, portkeyRatio: portkey.cpuUs / gateway.cpuUs }),
    }
  })
}

function render(summary, machine, memory) {
  const cleanRuns = ({ bare, gateway }) =>
    `${bare.undisturbedRuns + gateway.undisturbedRuns}/${bare.runs + gateway.runs}`
  const pair = (entry, field, digits) => [figure(entry.bare[field], digits), figure(entry.gateway[field], digits)]
  const cpu = (entry) => [...pair(entry, 'cpuUs', 1), figure(entry.ratio, 2)]
  const json = summary.filter((entry) => !entry.streamed)
  const streams = summary.filter((entry) => entry.streamed)
  const withPortkey = summary.filter((entry) => entry.portkey)
  const pairs = (...names) => names.flatMap((name) => [name, 'gateway'])
  return [
    machineLine(machine),
    '',
    'JSON answers, closed loop. Each pair of columns: bare, gateway',
    '',
    table(
      ['case', 'CPU µs/request', 'gateway', 'ratio', ...pairs('requests/s', 'p50 µs', 'p99 µs'), 'clean runs'],
      json.map((entry) => [
        entry.case,
        ...cpu(entry),
        ...pair(entry, 'perSecond'),
        ...pair(entry, 'p50Us'),
        ...pair(entry, 'p99Us'),
        cleanRuns(entry),
      ]),
    ),
    '',
    'Streamed answers of 50 chunks. Each pair of columns: bare, gateway',
    '',
    table(
      ['case', 'CPU µs/chunk', 'gateway', 'ratio', ...pairs('delay p50 µs', 'delay p99 µs'), 'clean runs'],
      streams.map((entry) => [
        entry.case,
        ...cpu(entry),
        ...pair(entry, 'delayP50Us'),
        ...pair(entry, 'delayP99Us'),
        cleanRuns(entry),
      ]),
    ),
    '',
    'First chunk of the streams. Each pair of columns: bare, gateway',
    '',
    table(
      ['case', ...pairs('p50 µs', 'p99 µs'), 'added at p99 µs'],
      streams.map((entry) => [entry.case, ...pair(entry, 'p50Us'), ...pair(entry, 'p99Us'), figure(entry.addedP99Us)]),
    ),
    '',
    ...(withPortkey.length === 0 ? [] : [renderPortkey(withPortkey), '']),
    `Peak memory: ${Object.entries(memory)
      .map(([name, mib]) => `${name} ${figure(mib)} MiB`)
      .join(', ')}`,
  ].join('\n')
}

const renderPortkey = (entries) =>
  [
    'Compared with Portkey: CPU µs per request or chunk, and first chunk or whole answer',
    '',
    table(
      ['case', 'gateway µs', 'portkey µs', 'portkey / gateway', 'gateway p50 µs', 'portkey p50 µs'],
      entries.map(({ case: name, gateway, portkey, portkeyRatio }) => [
        name,
        figure(gateway.cpuUs, 1),
        figure(portkey.cpuUs, 1),
        figure(portkeyRatio, 1),
        figure(gateway.p50Us),
        figure(portkey.p50Us),
      ]),
    ),
  ].join('\n')

/**
 * `npm run bench`: prints the tables and returns all figures.
 * @param {{quick: boolean, rounds: number | undefined, dataDir: string | undefined, noBuild: boolean, portkey: boolean}}
 *   options
 */
export async function benchRequests({ quick, rounds, dataDir, noBuild, portkey }) {
  const plan = { ...(quick ? QUICK : FULL), ...(rounds && { rounds }) }
  const loadBinary = buildLoadGenerator()
  if (!noBuild) buildProject()
  const machine = describeMachine(dataDir)
  return withSession({ dataDir }, async (session) => {
    const mock = await startMock(session)
    const bench = { loadBinary, mock }
    const candidates = [await startBare(session, mock), await startGateway(session, mock)]
    const other = portkey ? await startPortkey(session, mock) : undefined
    if (other) candidates.push(other)
    // All planned rounds run, even if they exceed the time budget. Only repeats depend on the remaining time.
    const deadlineMs = performance.now() + plan.budgetSeconds * 1000
    await warmUp(bench, candidates, plan.warmUpRuns)
    const runs = await takeRounds(bench, candidates, plan, deadlineMs)
    const memory = Object.fromEntries(candidates.map(({ name, pid }) => [name, processMemoryMib(pid).peak]))
    const summary = summarise(runs)
    console.log(render(summary, machine, memory))
    return { machine, plan, summary, memory, runs }
  })
}
