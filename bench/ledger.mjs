// What one durable commit costs, alone and shared: the daemon's own ledger on a real SQLite file. Each is taken in turns
// without evidence and with all of it: hashes of question and answer, entitlement, receipt, chain, signature.
import { hash } from 'node:crypto'
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

const QUESTION = JSON.stringify({ model: 'mock-model', messages: [{ role: 'user', content: 'word '.repeat(360) }] })
const ANSWER = JSON.stringify({ choices: [{ message: { role: 'assistant', content: 'word '.repeat(200) } }] })
const TENANT = '5f43a1c2d4e5f60718293a4b'
const KEY = '5f43a1c2d4e5f60718293a4c'

/** The receipt of a request as the chat pipeline makes it. */
function entryMaker({ entitle, toRequestEntry, newBundleId, systemClock, policy }) {
  const { id, name, document } = policy
  const applied = { canonical: id, name, document, hash: policy.hash, source: 'system_default' }
  return (usage) => {
    const nowMs = Date.now()
    const bundleId = newBundleId(nowMs)
    const entitlements = []
    const terms = {
      jti: `${bundleId}/0`,
      keyId: KEY,
      modelId: 'mock/mock-model',
      model: 'mock-model',
      policyHash: policy.hash,
      enforced: true,
      isAccepted: () => true,
    }
    entitle(terms, systemClock, (made) => entitlements.push(made))('mock-model', QUESTION)('mock-model', QUESTION)
    const inspectors = { canary: false, dlp: true, pii: true, policy: true, prompt_shield: false }
    const facts = {
      bundleId,
      requestId: usage.request_id,
      endpoint: 'POST /api/external/chat/completions',
      operation: 'chat.completion',
      tenantId: TENANT,
      keyId: KEY,
      userId: '5f43a1c2d4e5f60718293a4d',
      payerId: '5f43a1c2d4e5f60718293a4d',
      startedAtMs: nowMs,
      requestSha256: hash('sha256', QUESTION, 'hex'),
      requestedModel: 'mock/mock-model',
      index: 'Zero-Knowledge',
      streamed: false,
      policy: applied,
      inspectors,
      incidents: [],
      documentsRetrieved: 0,
      attempts: [{ model: 'mock/mock-model', status: 'served', latency_ms: 640 }],
      entitlements,
    }
    return toRequestEntry(facts, {
      atMs: nowMs,
      latencyMs: 640,
      result: 'success',
      status: 200,
      error: undefined,
      responseSha256: hash('sha256', ANSWER, 'hex'),
      answered: {
        outcome: 'complete',
        model: 'mock/mock-model',
        usage: {
          inputTokens: 321,
          outputTokens: 123,
          cacheReadTokens: 0,
          cacheWriteTokens: 0,
          reasoningTokens: 0,
          estimated: false,
        },
        cost: { mode: 'user-completions', nanos: 0, points: 0 },
        firstTokenMs: 640,
      },
    })
  }
}

/** `inFlight` requests that do nothing but commit, one after another, for so many seconds. */
async function measure(ledger, newRequestId, { inFlight, seconds, toEntry }) {
  const startedAt = performance.now()
  const cpu = process.cpuUsage()
  const waitedUs = []
  const work = async () => {
    while (performance.now() < startedAt + seconds * 1000) {
      const from = performance.now()
      const usage = usageRow(newRequestId())
      await ledger.commit(toEntry ? { usage, evidence: [toEntry(usage)] } : { usage })
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
  const { newRequestId, newBundleId } = await built('shared/ids.js')
  const { entitle } = await built('daemon/evidence/entitlement.js')
  const { toRequestEntry } = await built('daemon/evidence/request-entry.js')
  const { createSealer } = await built('daemon/evidence/sealing.js')
  const { openSigningKeys } = await built('daemon/evidence/signing-keys.js')
  const { findBuiltIn } = await built('daemon/policies/built-in.js')
  const { createMasterKey } = await built('daemon/secrets/seal.js')
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
  console.log('Each pair of columns: without evidence, with it\n')
  console.log(
    table(
      ['in flight', 'rows/s', 'proved', 'CPU µs/row', 'proved', 'evidence adds µs', 'wait p50 µs', 'proved'],
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
