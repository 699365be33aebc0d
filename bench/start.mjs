// Measures the time until the daemon is ready, the run time of CLI commands, and the memory of an idle daemon.
// Run: npm run bench -- start
import { spawnSync } from 'node:child_process'
import http from 'node:http'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { BenchError, buildProject, root } from './build.mjs'
import { spawnDaemon } from './candidates.mjs'
import { CPU, describeMachine, pinned, processMemoryMib } from './machine.mjs'
import { withSession } from './session.mjs'
import { figure, machineLine, median, table } from './tables.mjs'

const FULL = { daemonStarts: 9, commandRuns: 25, idleSeconds: 12 }
const QUICK = { daemonStarts: 3, commandRuns: 9, idleSeconds: 12 }

/** Interval between requests to /readyz. The requests are repeated until the status is 200. */
const POLL_MS = 2

const cli = path.join(root, 'bin', 'aigw.js')
const COMMANDS = {
  'node -e 0': ['-e', '0'],
  'aigw version': [cli, 'version'],
  'aigw --help': [cli, '--help'],
}

/** Returns the wall time of one run of a command in milliseconds. */
function timeCommand(name, args) {
  const [command, ...rest] = pinned(CPU.measured, [process.execPath, ...args])
  const startedAt = performance.now()
  const { status, stderr } = spawnSync(command, rest, { stdio: ['ignore', 'ignore', 'pipe'] })
  const tookMs = performance.now() - startedAt
  if (status !== 0) throw new BenchError(`${name} exited with ${status}: ${stderr}`)
  return tookMs
}

/** @returns {Promise<number>} the status of /readyz */
const readyStatus = (url) =>
  new Promise((resolve, reject) => {
    const request = http.get(`${url}/readyz`, { agent: false }, (response) => {
      response.resume().once('end', () => resolve(response.statusCode))
    })
    request.once('error', reject)
  })

/** Returns the milliseconds from spawning the daemon until /readyz first returns 200. */
async function timeToReady(child) {
  const { url } = await child.listening
  while ((await readyStatus(url)) !== 200) await sleep(POLL_MS)
  return performance.now() - child.startedAt
}

async function measureDaemon(session, plan) {
  const first = []
  const again = []
  for (let run = 0; run < plan.daemonStarts; run++) {
    const dir = path.join(session.dir, `start-${run}`)
    for (const times of [first, again]) {
      const { child } = spawnDaemon(session, { dir, cpu: CPU.measured })
      times.push(await timeToReady(child))
      await child.stop()
    }
  }
  const { child } = spawnDaemon(session, { dir: path.join(session.dir, 'idle'), cpu: CPU.measured })
  await timeToReady(child)
  await sleep(plan.idleSeconds * 1000)
  const idle = processMemoryMib(child.pid)
  await child.stop()
  return { first, again, idle }
}

function measureCommands(plan) {
  const times = Object.fromEntries(Object.keys(COMMANDS).map((name) => [name, []]))
  for (let run = 0; run < plan.commandRuns; run++) {
    for (const [name, args] of Object.entries(COMMANDS)) times[name].push(timeCommand(name, args))
  }
  return times
}

function render({ machine, plan, daemon, commands }) {
  const bareMs = median(commands['node -e 0'])
  const daemonRow = (name, times) => [
    name,
    figure(median(times)),
    figure(Math.min(...times)),
    figure(Math.max(...times)),
  ]
  return [
    machineLine(machine),
    '',
    `Daemon: from spawn to /readyz 200, ${plan.daemonStarts} starts`,
    '',
    table(
      ['start', 'median ms', 'fastest', 'slowest'],
      [daemonRow('with an empty store', daemon.first), daemonRow('second start with that store', daemon.again)],
    ),
    '',
    `Idle memory ${plan.idleSeconds} s after the start: ${figure(daemon.idle.now, 1)} MiB (peak ${figure(daemon.idle.peak, 1)} MiB)`,
    '',
    `Commands, ${plan.commandRuns} runs each, alternating`,
    '',
    table(
      ['command', 'median ms', 'fastest', 'over bare node ms'],
      Object.entries(commands).map(([name, times]) => [
        name,
        figure(median(times), 1),
        figure(Math.min(...times), 1),
        figure(median(times) - bareMs, 1),
      ]),
    ),
  ].join('\n')
}

/**
 * `npm run bench -- start`: prints the tables and returns all figures.
 * @param {{quick: boolean, rounds: number | undefined, dataDir: string | undefined, noBuild: boolean}} options
 */
export async function benchStart({ quick, rounds, dataDir, noBuild }) {
  const plan = quick ? { ...QUICK } : { ...FULL }
  if (rounds) Object.assign(plan, { daemonStarts: rounds, commandRuns: rounds })
  if (!noBuild) buildProject()
  const machine = describeMachine(dataDir)
  const daemon = await withSession({ dataDir }, (session) => measureDaemon(session, plan))
  const commands = measureCommands(plan)
  const figures = { machine, plan, daemon, commands }
  console.log(render(figures))
  return figures
}
