// Measures the CPU that evidence adds to a request, and the time to export and verify a long log.
// Run: npm run bench -- evidence
import { spawn, spawnSync } from 'node:child_process'
import { copyFileSync, cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { BenchError, buildLoadGenerator, buildProject, root } from './build.mjs'
import { spawnDaemon, startGateway, startMock } from './candidates.mjs'
import { entryMaker } from './evidence-entries.mjs'
import { countBroken, runLoad } from './load.mjs'
import { describeMachine } from './machine.mjs'
import { withSession } from './session.mjs'
import { figure, machineLine, median, table } from './tables.mjs'

const KASE = { name: 'json-50', connections: 50 }
const FULL = { rounds: 8, seconds: 4, warmUpSeconds: 12, entries: 1_000_000 }
const QUICK = { rounds: 4, seconds: 2, warmUpSeconds: 6, entries: 100_000 }
/** Number of concurrent commits. Entries in the same group commit share one signature. */
const IN_FLIGHT = 50

/**
 * The built code that creates evidence: [file, code, replacement that disables the code]. This code hashes the request,
 * the call and the answer. It also creates the receipt with its row, chain entry, tree and signature.
 */
const CUTS = [
  ['daemon/platform/http/edge.js', "hash('sha256', raw, 'hex')", "''"],
  ['daemon/records/evidence/entitlement.js', "hash('sha256', body, 'hex')", "''"],
  ['daemon/gateway/chat/answer-rendering.js', "hash('sha256', body, 'hex')", "''"],
  ['daemon/gateway/governed/finish.js', 'evidence: [...failovers.evidence, entry],', ''],
  ['daemon/gateway/governed/finish.js', 'const entry = toEntry(', 'const entry = (() => undefined)('],
]

/**
 * `npm run bench -- evidence`: alternates requests with and without evidence, then writes, exports and verifies
 * 1,000,000 entries.
 * @param {{quick: boolean, rounds: number | undefined, dataDir: string | undefined, noBuild: boolean, part: string | undefined}} options
 */
export async function benchEvidence({ quick, rounds, dataDir, noBuild, part }) {
  const plan = { ...(quick ? QUICK : FULL), ...(rounds && { rounds }) }
  if (!noBuild) buildProject()
  const machine = describeMachine(dataDir)
  console.log(`${machineLine(machine)}\n`)
  const result = { machine, plan }
  if (part !== 'checks') result.requests = await benchRequests(plan, dataDir)
  if (part !== 'requests') result.checks = await benchChecks(plan, dataDir)
  return result
}

async function benchRequests(plan, dataDir) {
  const loadBinary = buildLoadGenerator()
  const taken = await withSession({ dataDir }, async (session) => {
    const mock = await startMock(session)
    const home = withoutEvidence(session.dir)
    const candidates = {
      with: await startGateway(session, mock),
      without: await startGateway(session, mock, { name: 'without evidence', home }),
    }
    for (const candidate of Object.values(candidates)) await runLoad(loadBinary, candidate, KASE, plan.warmUpSeconds)
    const taken = { with: [], without: [] }
    for (let round = 0; round < plan.rounds; round++) {
      for (const name of round % 2 ? ['with', 'without'] : ['without', 'with']) {
        const run = await runLoad(loadBinary, candidates[name], KASE, plan.seconds)
        if (countBroken(run) > 0 || run.completed === 0)
          throw new BenchError(`a run "${name}" evidence had broken responses`)
        taken[name].push(run.watched_cpu_us / run.completed)
      }
    }
    return taken
  })
  // Compares only adjacent runs, because the machine's speed changes over minutes.
  const addsUs = median(taken.with.map((us, round) => us - taken.without[round]))
  const row = (name, cpuUs) => [
    name,
    figure(median(cpuUs), 1),
    figure(Math.min(...cpuUs), 1),
    figure(Math.max(...cpuUs), 1),
  ]
  console.log(
    table(
      ['json-50', 'CPU µs/request', 'least', 'most'],
      [row('with evidence', taken.with), row('without', taken.without)],
    ),
  )
  console.log(`\nEvidence adds ${figure(addsUs, 1)} µs to a request.\n`)
  return { ...taken, addsUs }
}

/** Copies the build, disables evidence in the copy and returns its folder. */
function withoutEvidence(dir) {
  const home = path.join(dir, 'without')
  mkdirSync(home)
  for (const name of ['bin', 'scripts', 'package.json'])
    cpSync(path.join(root, name), path.join(home, name), { recursive: true })
  for (const name of ['daemon', 'shared']) {
    cpSync(path.join(root, 'dist', name), path.join(home, 'dist', name), { recursive: true })
  }
  symlinkSync(path.join(root, 'node_modules'), path.join(home, 'node_modules'))
  for (const [file, piece, instead] of CUTS) {
    const target = path.join(home, 'dist', file)
    const code = readFileSync(target, 'utf8')
    if (!code.includes(piece))
      throw new BenchError(`${file} no longer contains "${piece}"; update CUTS in bench/evidence.mjs`)
    writeFileSync(target, code.replace(piece, instead))
  }
  const { status } = spawnSync(process.execPath, [path.join(home, 'scripts', 'bundle.mjs')], {
    stdio: ['ignore', 2, 2],
  })
  if (status !== 0) throw new BenchError('the gateway without evidence cannot be built; see the messages above')
  return home
}

async function benchChecks(plan, dataDir) {
  const steps = await withSession({ dataDir }, async (session) => {
    const dir = path.join(session.dir, 'gateway')
    // The daemon's first start creates the schema, the tenant and the keys. The store is filled while the daemon is
    // stopped.
    const first = spawnDaemon(session, { dir })
    await first.child.listening
    await first.child.stop()
    const steps = [await fill(path.join(dir, 'data'), plan.entries)]
    const { child, key } = spawnDaemon(session, { dir, key: first.key })
    const { url } = await child.listening
    const env = { AIGW_BASE_URL: url, AIGW_API_KEY: key }
    const aigw = [path.join(root, 'bin', 'aigw.js'), '--quiet', '--yes']
    const folder = path.join(session.dir, 'export')
    mkdirSync(folder)
    steps.push(await timed('aigw audit export', [...aigw, 'audit', 'export', folder], env))
    // A copy of the keys outside the export, because verifiers do not call an export valid by its own keys.
    const keys = ['--keys', path.join(session.dir, 'aigw-keys.json')]
    copyFileSync(path.join(folder, 'keys.json'), keys[1])
    steps.push(await timed('node verify.mjs', [path.join(folder, 'verify.mjs'), ...keys], env))
    steps.push(await timed('aigw audit verify DIR', [...aigw, 'audit', 'verify', folder, ...keys], env))
    await child.stop()
    return steps
  })
  console.log(`${figure(plan.entries)} entries, ${IN_FLIGHT} concurrent requests:\n`)
  console.log(
    table(
      ['', 'seconds', 'CPU s', 'peak MiB'],
      steps.map(({ name, seconds, cpuSeconds, mib }) => [name, figure(seconds, 1), figure(cpuSeconds, 1), figure(mib)]),
    ),
  )
  return steps
}

const built = (file) => import(pathToFileURL(path.join(root, 'dist', file)).href)

/**
 * Writes requests of the store's tenant through the daemon's ledger. The ledger bills the requests and seals their
 * entries.
 */
async function fill(dataDir, entries) {
  const { openDatabase } = await built('daemon/platform/db/database.js')
  const { openDaemonId } = await built('daemon/records/evidence/daemon-id.js')
  const { entitle } = await built('daemon/records/evidence/entitlement.js')
  const { toRequestEntry } = await built('daemon/records/evidence/request-entry.js')
  const { createSealer } = await built('daemon/records/evidence/sealing.js')
  const { openSigningKeys } = await built('daemon/records/evidence/signing-keys.js')
  const { createLedger } = await built('daemon/records/ledger/ledger.js')
  const { findBuiltIn } = await built('daemon/safety/policies/built-in.js')
  const { openMasterKey } = await built('daemon/platform/secrets/master-key.js')
  const { newBundleId, newRequestId } = await built('shared/ids.js')
  const { systemClock: clock } = await built('shared/time.js')
  const log = { info() {}, warn: console.warn, error: console.error }
  const db = await openDatabase({ kind: 'sqlite', dataDir })
  const startedAt = performance.now()
  const cpu = process.cpuUsage()
  try {
    const { id: tenantId } = await db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
    const masterKey = await openMasterKey(db, { configured: undefined, dataDir, clock, log })
    const keys = await openSigningKeys(db, { masterKey, name: 'aigw', clock, log })
    const sealer = createSealer({ db, clock, keys, daemonId: await openDaemonId(dataDir) })
    const ledger = createLedger({ db, clock, log, sealer })
    const toEntry = entryMaker({
      entitle,
      toRequestEntry,
      newBundleId,
      systemClock: clock,
      policy: findBuiltIn('internal'),
    })
    let left = entries
    const work = async () => {
      while (left > 0) {
        left -= 1
        await ledger.commit({ evidence: [toEntry(newRequestId(), tenantId)] })
      }
    }
    await Promise.all(Array.from({ length: IN_FLIGHT }, work))
    await ledger.close()
  } finally {
    await db.destroy()
  }
  const { user, system } = process.cpuUsage(cpu)
  return { name: 'written', seconds: (performance.now() - startedAt) / 1000, cpuSeconds: (user + system) / 1e6 }
}

/** Runs a program until it exits. Throws BenchError if it fails. */
async function timed(name, argv, env) {
  const startedAt = performance.now()
  // The program prints its own resource usage on exit, so no other process has to measure it.
  const printUsage = `process.on('exit', () => console.error('\\n' + JSON.stringify(process.resourceUsage())))`
  const child = spawn(
    process.execPath,
    ['--import', `data:text/javascript,${encodeURIComponent(printUsage)}`, ...argv],
    {
      env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  )
  let output = ''
  child.stderr.on('data', (data) => {
    output = (output + data).slice(-4_000)
  })
  const status = await new Promise((resolve) => child.on('close', resolve))
  if (status !== 0) throw new BenchError(`${name} exited with ${status}:\n${output}`)
  const { userCPUTime, systemCPUTime, maxRSS } = JSON.parse(output.trim().split('\n').at(-1))
  const cpuSeconds = (userCPUTime + systemCPUTime) / 1e6
  return { name, seconds: (performance.now() - startedAt) / 1000, cpuSeconds, mib: maxRSS / 1024 }
}
