// Measures durable commits of the daemon's ledger on a SQLite file, sequential and concurrent. Alternates runs without
// and with evidence (hashes, entitlement, receipt, chain, signature). Run: npm run bench -- ledger
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { buildProject, root } from './build.mjs'
import { entryMaker, plainRow } from './evidence-entries.mjs'
import { describeMachine } from './machine.mjs'
import { withSession } from './session.mjs'
import { figure, machineLine, median, table } from './tables.mjs'

const IN_FLIGHT = [1, 50, 200]
const FULL = { rounds: 5, seconds: 2 }
const QUICK = { rounds: 2, seconds: 1 }

const built = (file) => import(pathToFileURL(path.join(root, 'dist', file)).href)

/** Runs `inFlight` loops for `seconds` seconds. Each loop commits one row after another. */
async function measure(ledger, newRequestId, { inFlight, seconds, toEntry }) {
  const startedAt = performance.now()
  const cpu = process.cpuUsage()
  const waitedUs = []
  const work = async () => {
    while (performance.now() < startedAt + seconds * 1000) {
      const from = performance.now()
      const id = newRequestId()
      await ledger.commit(toEntry ? { evidence: [toEntry(id)] } : { incidents: [plainRow(id)] })
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
 * `npm run bench -- ledger`: prints the table and returns all figures.
 * @param {{quick: boolean, rounds: number | undefined, dataDir: string | undefined, noBuild: boolean}} options
 */
export async function benchLedger({ quick, rounds, dataDir, noBuild }) {
  const plan = { ...(quick ? QUICK : FULL), ...(rounds && { rounds }) }
  if (!noBuild) buildProject()
  const { openDatabase } = await built('daemon/platform/db/database.js')
  const { migrateDatabase } = await built('daemon/platform/db/migrate.js')
  const { createLedger } = await built('daemon/records/ledger/ledger.js')
  const { systemClock } = await built('shared/time.js')
  const { newRequestId, newBundleId } = await built('shared/ids.js')
  const { entitle } = await built('daemon/records/evidence/entitlement.js')
  const { toRequestEntry } = await built('daemon/records/evidence/request-entry.js')
  const { createSealer } = await built('daemon/records/evidence/sealing.js')
  const { openSigningKeys } = await built('daemon/records/evidence/signing-keys.js')
  const { findBuiltIn } = await built('daemon/safety/policies/built-in.js')
  const { createMasterKey } = await built('daemon/platform/secrets/seal.js')
  const machine = describeMachine(dataDir)
  const runs = await withSession({ dataDir }, async ({ dir }) => {
    const db = await openDatabase({ kind: 'sqlite', dataDir: dir })
    const clock = systemClock
    const taken = []
    let ledger
    try {
      await migrateDatabase(db)
      const masterKey = createMasterKey('0'.repeat(64))
      const keys = await openSigningKeys(db, { masterKey, name: 'bench', clock })
      const sealer = createSealer({ db, clock, keys, daemonId: '0123456789ab' })
      ledger = createLedger({ db, clock, log: console, sealer })
      const policy = findBuiltIn('internal')
      const toEntry = entryMaker({ entitle, toRequestEntry, newBundleId, systemClock, policy })
      const take = (inFlight, seconds, isProved) =>
        measure(ledger, newRequestId, { inFlight, seconds, toEntry: isProved ? toEntry : undefined })
      for (const isProved of [false, true]) await take(50, 2, isProved)
      for (let round = 0; round < plan.rounds; round++) {
        for (const inFlight of IN_FLIGHT) {
          for (const isProved of round % 2 ? [true, false] : [false, true]) {
            taken.push({ ...(await take(inFlight, plan.seconds, isProved)), isProved })
          }
        }
      }
    } finally {
      await ledger?.close()
      await db.destroy()
    }
    return taken
  })
  const summary = IN_FLIGHT.map((inFlight) => {
    const of = (isProved) => {
      const own = runs.filter((run) => run.inFlight === inFlight && run.isProved === isProved)
      const middle = (field) => median(own.map((run) => run[field]))
      return { rowsPerSecond: middle('rowsPerSecond'), cpuUs: middle('cpuUs'), waitP50Us: middle('waitP50Us') }
    }
    return { inFlight, plain: of(false), proved: of(true) }
  })
  const pair = ({ plain, proved }, field, digits) => [figure(plain[field], digits), figure(proved[field], digits)]
  console.log(`${machineLine({ ...machine, pinned: false })}\n`)
  console.log('In each pair of columns, the second is with evidence\n')
  console.log(
    table(
      ['in flight', 'rows/s', 'with', 'CPU µs/row', 'with', 'evidence adds µs', 'wait p50 µs', 'with'],
      summary.map((entry) => [
        String(entry.inFlight),
        ...pair(entry, 'rowsPerSecond'),
        ...pair(entry, 'cpuUs', 1),
        figure(entry.proved.cpuUs - entry.plain.cpuUs, 1),
        ...pair(entry, 'waitP50Us'),
      ]),
    ),
  )
  return { machine, plan, summary, runs }
}
