// What one durable commit costs, alone and shared: the daemon's own ledger on a real SQLite file.
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { buildProject, root } from './build.mjs'
import { describeMachine } from './machine.mjs'
import { withSession } from './session.mjs'
import { figure, machineLine, median, table } from './tables.mjs'

const IN_FLIGHT = [1, 50, 200]
const FULL = { rounds: 5, seconds: 2 }
const QUICK = { rounds: 2, seconds: 1 }

const built = (file) => import(pathToFileURL(path.join(root, 'dist', file)).href)

/** @param {string} requestId */
const usageRow = (requestId) => ({
  request_id: requestId,
  tenant_id: '5f43a1c2d4e5f60718293a4b',
  api_key_id: '5f43a1c2d4e5f60718293a4c',
  user_id: '5f43a1c2d4e5f60718293a4d',
  created_at: new Date().toISOString(),
  route: '/api/external/chat/completions',
  streamed: 0,
  requested_model: 'mock/mock-model',
  served_model: 'mock/mock-model',
  index_used: 'Zero-Knowledge',
  outcome: 'complete',
  native_finish_reason: 'stop',
  input_tokens: 321,
  output_tokens: 123,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
  reasoning_tokens: 0,
  tokens_estimated: 0,
  attempts: 1,
  latency_ms: 640,
  first_token_ms: null,
  billing_mode: 'user-completions',
  billing_period: '2026-11',
  cost_nanos: 0,
  points: 0,
  price_missing: 0,
})

/** `inFlight` requests that do nothing but commit, one after another, for so many seconds. */
async function measure(ledger, newRequestId, inFlight, seconds) {
  const startedAt = performance.now()
  const cpu = process.cpuUsage()
  const waitedUs = []
  const work = async () => {
    while (performance.now() < startedAt + seconds * 1000) {
      const from = performance.now()
      await ledger.commit({ usage: usageRow(newRequestId()) })
      waitedUs.push((performance.now() - from) * 1000)
    }
  }
  await Promise.all(Array.from({ length: inFlight }, work))
  const { user, system } = process.cpuUsage(cpu)
  const tookSeconds = (performance.now() - startedAt) / 1000
  const rows = waitedUs.length
  return { inFlight, rowsPerSecond: rows / tookSeconds, cpuUs: (user + system) / rows, waitP50Us: median(waitedUs) }
}

/**
 * `npm run bench -- ledger`: prints the table and returns everything that was measured.
 * @param {{quick: boolean, rounds: number | undefined, dataDir: string | undefined, noBuild: boolean}} options
 */
export async function benchLedger({ quick, rounds, dataDir, noBuild }) {
  const plan = { ...(quick ? QUICK : FULL), ...(rounds && { rounds }) }
  if (!noBuild) buildProject()
  const { openDatabase, migrateDatabase } = await built('daemon/db/database.js')
  const { createLedger } = await built('daemon/ledger/ledger.js')
  const { systemClock } = await built('shared/time.js')
  const { newRequestId } = await built('shared/ids.js')
  const machine = describeMachine(dataDir)
  const runs = await withSession({ dataDir }, async ({ dir }) => {
    const db = await openDatabase({ kind: 'sqlite', dataDir: dir })
    const ledger = createLedger({ db, clock: systemClock, log: console })
    const taken = []
    try {
      await migrateDatabase(db)
      await measure(ledger, newRequestId, 50, 1)
      for (let round = 0; round < plan.rounds; round++) {
        for (const inFlight of IN_FLIGHT) taken.push(await measure(ledger, newRequestId, inFlight, plan.seconds))
      }
    } finally {
      await ledger.close()
      await db.destroy()
    }
    return taken
  })
  const summary = IN_FLIGHT.map((inFlight) => {
    const of = (field) => median(runs.filter((run) => run.inFlight === inFlight).map((run) => run[field]))
    return { inFlight, rowsPerSecond: of('rowsPerSecond'), cpuUs: of('cpuUs'), waitP50Us: of('waitP50Us') }
  })
  console.log(`${machineLine({ ...machine, pinned: false })}\n`)
  console.log(
    table(
      ['in flight', 'rows/s', 'CPU µs/row', 'wait p50 µs'],
      summary.map((entry) => [
        String(entry.inFlight),
        figure(entry.rowsPerSecond),
        figure(entry.cpuUs, 1),
        figure(entry.waitP50Us),
      ]),
    ),
  )
  return { machine, plan, summary, runs }
}
