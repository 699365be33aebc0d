// Profiles the gateway under load with V8's sampling profiler, one run per kind of request.
// Run: npm run bench -- profile
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { BenchError, buildLoadGenerator, buildProject, root } from './build.mjs'
import { checkAnswer, startGateway, startMock } from './candidates.mjs'
import { countBroken, runLoad } from './load.mjs'
import { describeMachine } from './machine.mjs'
import { withSession } from './session.mjs'
import { figure, machineLine, table } from './tables.mjs'

const KINDS = [
  { name: 'json-50', connections: 50 },
  { name: 'sse-50', connections: 50, stream: { chunks: 50, intervalMs: 20 } },
]
const SHOWN_FUNCTIONS = 30
const SAMPLE_INTERVAL_US = 500
const WARM_UP_SECONDS = 2

/** Returns a short location: the path within the project or within the npm package. */
function locationOf({ url, lineNumber }) {
  if (!url) return ''
  const file = url.replace(/^file:\/\//, '').replace(`${root}/`, '')
  return `${file.replace(/^.*node_modules\//, '')}:${lineNumber + 1}`
}

/**
 * Groups call frames by their folder in dist/daemon or by their package. Node is one group. Frames without a file are
 * grouped by name.
 */
function partOf({ url, functionName }) {
  if (!url) return functionName
  if (url.startsWith('node:')) return 'node'
  const dependency = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)
  if (dependency) return dependency[1]
  return /dist\/(.+?)(?:\/[^/]+)?$/.exec(url)?.[1] ?? url
}

/**
 * Computes the self time of each function: the time in the function without its callees. Idle time is omitted.
 * @param {{profile: object, fromUs: number, untilUs: number, units: number}} measured a .cpuprofile, the measured time
 *   range, and the number of requests or chunks in it
 * @param {(callFrame: object) => string} keyOf
 * @returns {{key: string, usPerUnit: number}[]} largest first
 */
function selfTimes({ profile, fromUs, untilUs, units }, keyOf) {
  const frames = new Map(profile.nodes.map(({ id, callFrame }) => [id, callFrame]))
  const totals = new Map()
  let timeUs = profile.startTime
  profile.samples.forEach((id, at) => {
    timeUs += profile.timeDeltas[at]
    const frame = frames.get(id)
    if (timeUs < fromUs || timeUs > untilUs || frame.functionName === '(idle)') return
    const key = keyOf(frame)
    totals.set(key, (totals.get(key) ?? 0) + profile.timeDeltas[at] / units)
  })
  return [...totals].map(([key, usPerUnit]) => ({ key, usPerUnit })).sort((a, b) => b.usPerUnit - a.usPerUnit)
}

async function profileKind({ loadBinary, dataDir }, kind, seconds) {
  return withSession({ dataDir }, async (session) => {
    const mock = await startMock(session)
    const profileDir = path.join(session.dir, 'profile')
    const nodeOptions = ['--cpu-prof', `--cpu-prof-dir=${profileDir}`, `--cpu-prof-interval=${SAMPLE_INTERVAL_US}`]
    const gateway = await startGateway(session, mock, { nodeOptions })
    await checkAnswer(mock, gateway)
    if (kind.stream) await mock.shape(kind.stream)
    await runLoad(loadBinary, gateway, kind, WARM_UP_SECONDS)
    // Excludes start-up and shutdown by time: V8's samples and hrtime use the same clock.
    const fromUs = Number(process.hrtime.bigint() / 1000n)
    const result = await runLoad(loadBinary, gateway, kind, seconds)
    const untilUs = Number(process.hrtime.bigint() / 1000n)
    if (countBroken(result) > 0) throw new BenchError(`${kind.name}: responses failed.\n${gateway.child.output()}`)
    const code = await gateway.child.stop()
    const [file] = code === 0 ? readdirSync(profileDir) : []
    if (!file) throw new BenchError(`the gateway exited with ${code} and wrote no profile.\n${gateway.child.output()}`)
    const profile = JSON.parse(readFileSync(path.join(profileDir, file), 'utf8'))
    const units = kind.stream ? result.chunks : result.completed
    const measured = { profile, fromUs, untilUs, units }
    return {
      name: kind.name,
      units,
      functions: selfTimes(measured, (frame) => `${frame.functionName || '(anonymous)'} ${locationOf(frame)}`),
      parts: selfTimes(measured, partOf),
    }
  })
}

function render({ name, units, functions, parts }) {
  const total = parts.reduce((sum, { usPerUnit }) => sum + usPerUnit, 0)
  const rows = (list) =>
    list.map(({ key, usPerUnit }) => [key, figure(usPerUnit, 2), `${figure((usPerUnit / total) * 100, 1)} %`])
  return [
    `${name}: ${figure(units)} requests or chunks, ${figure(total, 1)} µs each on the main thread, including the profiler`,
    '',
    table(['part', 'µs', 'share'], rows(parts.slice(0, SHOWN_FUNCTIONS))),
    '',
    table(['function', 'self µs', 'share'], rows(functions.slice(0, SHOWN_FUNCTIONS))),
    '',
  ].join('\n')
}

/**
 * `npm run bench -- profile`: prints the profile and returns all figures.
 * @param {{quick: boolean, dataDir: string | undefined, noBuild: boolean}} options
 */
export async function profileGateway({ quick, dataDir, noBuild }) {
  const loadBinary = buildLoadGenerator()
  if (!noBuild) buildProject()
  const machine = describeMachine(dataDir)
  console.log(`${machineLine(machine)}\n`)
  const kinds = []
  for (const kind of KINDS) {
    const figures = await profileKind({ loadBinary, dataDir }, kind, quick ? 4 : 10)
    console.log(render(figures))
    kinds.push(figures)
  }
  return { machine, kinds }
}
