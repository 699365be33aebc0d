// Measures the CPU of this build and of other builds, all at the same time. The position in the list has an effect of up
// to 2 %: run the benchmark from both builds, and take the middle.
// Run: npm run bench -- builds --against DIR
import path from 'node:path'
import { BenchError, buildLoadGenerator, buildProject } from './build.mjs'
import { checkAnswer, startBare, startGateway, startMock } from './candidates.mjs'
import { countBroken, runLoad, SETTLE_SECONDS } from './load.mjs'
import { describeMachine } from './machine.mjs'
import { withSession } from './session.mjs'
import { figure, machineLine, median, table } from './tables.mjs'

const CASES = [
  { name: 'json-50', connections: 50 },
  { name: 'json-50 with a logged finding', connections: 50, finding: true },
  { name: 'sse-50', connections: 50, stream: { chunks: 50, intervalMs: 20 } },
]
/** The warm-up streams send chunks faster, so that V8 finishes compiling sooner. */
const WARM_UP = [CASES[0], { name: 'sse-warm', connections: 50, stream: { chunks: 50, intervalMs: 4 } }]
const FULL = { rounds: 12, seconds: 3, warmUpRuns: 4 }
const QUICK = { rounds: 5, seconds: 3, warmUpRuns: 2 }

/**
 * `npm run bench -- builds --against DIR`: loads this build, the build in each DIR (an already built checkout) and the bare
 * proxy at the same time.
 * @param {{quick: boolean, rounds: number | undefined, dataDir: string | undefined, noBuild: boolean, against: string[]}} options
 */
export async function benchBuilds({ quick, rounds, dataDir, noBuild, against = [] }) {
  if (against.length === 0) throw new BenchError('--against DIR is required: name at least one other build')
  const plan = { ...(quick ? QUICK : FULL), ...(rounds && { rounds }) }
  const loadBinary = buildLoadGenerator()
  if (!noBuild) buildProject()
  const machine = describeMachine(dataDir)
  const runs = await withSession({ dataDir }, async (session) => {
    const mock = await startMock(session)
    const candidates = [await startBare(session, mock), await startGateway(session, mock, { name: 'this build' })]
    for (const home of against) {
      candidates.push(await startGateway(session, mock, { name: path.basename(path.resolve(home)), home }))
    }
    return measureTogether({ loadBinary, mock }, candidates, plan)
  })
  console.log(`${machineLine(machine)}\n\n${render(runs)}`)
  return { machine, plan, runs }
}

/** Loads all candidates at the same time, so that other programs of the machine affect them alike. */
async function measureTogether({ loadBinary, mock }, candidates, plan) {
  const measure = async (candidate, kase, seconds) => {
    const result = await runLoad(loadBinary, candidate, kase, seconds, { settleSeconds: SETTLE_SECONDS })
    const units = kase.stream ? result.chunks : result.completed
    if (units === 0 || countBroken(result) > 0)
      throw new BenchError(`${candidate.name} returned broken responses in ${kase.name}`)
    return result.watched_cpu_us / units
  }
  const measureAll = async (kase, seconds) => {
    if (kase.stream) await mock.shape(kase.stream)
    return Promise.all(candidates.map((candidate) => measure(candidate, kase, seconds)))
  }
  for (const candidate of candidates) await checkAnswer(mock, candidate)
  for (const kase of [...WARM_UP, ...CASES])
    for (let run = 0; run < plan.warmUpRuns; run++) await measureAll(kase, plan.seconds)
  const runs = []
  for (let round = 0; round < plan.rounds; round++) {
    for (const kase of CASES) {
      const all = await measureAll(kase, plan.seconds)
      for (const [at, { name }] of candidates.entries()) {
        console.error(`${round + 1}/${plan.rounds} ${kase.name.padEnd(8)} ${name.padEnd(12)} ${figure(all[at], 1)} µs`)
        runs.push({ round, case: kase.name, candidate: name, cpuUs: all[at] })
      }
    }
  }
  return runs
}

/** Compares only runs of the same round, because the machine's speed changes over minutes. */
function render(runs) {
  const rows = CASES.flatMap((kase) => {
    const of = (name) =>
      runs.filter((run) => run.case === kase.name && run.candidate === name).map(({ cpuUs }) => cpuUs)
    const names = [...new Set(runs.map(({ candidate }) => candidate))]
    const ratio = (name, base) => median(of(name).map((us, round) => us / of(base)[round]))
    return names.map((name) => [
      kase.name,
      name,
      figure(median(of(name)), 1),
      figure(Math.min(...of(name)), 1),
      figure(Math.max(...of(name)), 1),
      figure(ratio(name, 'bare'), 2),
      figure(ratio(name, 'this build'), 2),
    ])
  })
  return table(['case', 'build', 'CPU µs/request or chunk', 'least', 'most', '× bare', '× this build'], rows)
}
