// Measures the memory of an open stream, and whether thousands of concurrent streams lose or reorder chunks.
// Run: npm run bench -- streams
import { setTimeout as sleep } from 'node:timers/promises'
import { BenchError, buildLoadGenerator, buildProject } from './build.mjs'
import { checkAnswer, startBare, startGateway, startMock } from './candidates.mjs'
import { countBroken, runLoad } from './load.mjs'
import { describeMachine, processMemoryMib } from './machine.mjs'
import { withSession } from './session.mjs'
import { figure, machineLine, median, table } from './tables.mjs'

const FULL = { streams: 5000, chunks: 20, intervalMs: 1000, rampMs: 5000 }
const QUICK = { streams: 1000, chunks: 8, intervalMs: 1000, rampMs: 1500 }
/** Without this warm-up, compiled code and the heap of the first requests would be counted as stream memory. */
const WARM_UP = [
  { connections: 50, seconds: 3 },
  { connections: 200, seconds: 4, stream: { chunks: 50, intervalMs: 5 } },
]
const REST_MS = 3000
const SAMPLE_MS = 250

async function measure({ loadBinary, mock }, candidate, plan) {
  await checkAnswer(mock, candidate)
  for (const kase of WARM_UP) {
    if (kase.stream) await mock.shape(kase.stream)
    const result = await runLoad(loadBinary, candidate, kase, kase.seconds)
    if (countBroken(result) > 0) throw new BenchError(`${candidate.name} failed.\n${candidate.child.output()}`)
  }
  await sleep(REST_MS)
  const before = processMemoryMib(candidate.pid).now
  const stream = { chunks: plan.chunks, intervalMs: plan.intervalMs }
  await mock.shape(stream)
  const durationMs = plan.rampMs + plan.chunks * plan.intervalMs
  const startedAt = performance.now()
  const samples = []
  const kase = { connections: plan.streams, stream }
  const run = runLoad(loadBinary, candidate, kase, durationMs / 1000 + 30, { once: true, rampMs: plan.rampMs })
  let isOver = false
  const over = run.finally(() => {
    isOver = true
  })
  over.catch(() => {})
  while (!isOver) {
    await Promise.race([sleep(SAMPLE_MS), over.catch(() => {})])
    const sinceMs = performance.now() - startedAt
    // Samples are taken only while all streams are open.
    if (sinceMs > plan.rampMs + 500 && sinceMs < durationMs - plan.rampMs) {
      samples.push(processMemoryMib(candidate.pid).now)
    }
  }
  const result = await over
  const { completed, truncated, reordered, open_max: openMax, chunks, delay, watched_cpu_us: cpuUs } = result
  const lost = plan.streams - completed + truncated + result.errors + result.non2xx
  const duringMib = median(samples)
  const kbPerStream = ((duringMib - before) * 1024) / plan.streams
  const delays = { delayP50Us: delay.p50, delayP99Us: delay.p99 }
  const memory = { beforeMib: before, duringMib, kbPerStream }
  return { candidate: candidate.name, openMax, lost, reordered, chunks, ...memory, ...delays, cpuUs: cpuUs / chunks }
}

const render = (machine, plan, runs) =>
  [
    machineLine(machine),
    '',
    `${figure(plan.streams)} streams of ${plan.chunks} chunks, ${plan.intervalMs} ms apart, all concurrent`,
    '',
    table(
      [
        'candidate',
        'open',
        'lost',
        'reordered',
        'MiB before',
        'MiB open',
        'KiB/stream',
        'CPU µs/chunk',
        'delay p50 µs',
        'p99 µs',
      ],
      runs.map((run) => [
        run.candidate,
        figure(run.openMax),
        figure(run.lost),
        figure(run.reordered),
        figure(run.beforeMib),
        figure(run.duringMib),
        figure(run.kbPerStream, 1),
        figure(run.cpuUs, 1),
        figure(run.delayP50Us),
        figure(run.delayP99Us),
      ]),
    ),
  ].join('\n')

/**
 * `npm run bench -- streams`: prints the table and returns all figures.
 * @param {{quick: boolean, dataDir: string | undefined, noBuild: boolean}} options
 */
export async function benchStreams({ quick, dataDir, noBuild }) {
  const plan = quick ? QUICK : FULL
  const loadBinary = buildLoadGenerator()
  if (!noBuild) buildProject()
  const machine = describeMachine(dataDir)
  const runs = []
  // Candidates run one after the other, because thousands of idle connections would disturb the other candidate.
  for (const start of [startBare, startGateway]) {
    const run = await withSession({ dataDir }, async (session) => {
      const mock = await startMock(session)
      return measure({ loadBinary, mock }, await start(session, mock), plan)
    })
    runs.push(run)
  }
  console.log(render(machine, plan, runs))
  const broken = runs.find(({ lost, reordered, openMax }) => lost + reordered > 0 || openMax < plan.streams)
  if (broken) throw new BenchError(`${broken.candidate} lost or reordered streams, or did not keep all of them open`)
  return { machine, plan, runs }
}
