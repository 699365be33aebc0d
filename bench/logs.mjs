// Measures pages of a long log: fills a store with entries, starts a real daemon on it and reads over HTTP, one call
// after another. Run: npm run bench -- logs [--entries N] [--postgres URL] [--store DIR]
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import http from 'node:http'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { BenchError, buildProject, root } from './build.mjs'
import { spawnDaemon } from './candidates.mjs'
import { CPU, describeMachine, processCpuUs } from './machine.mjs'
import { withSession } from './session.mjs'
import { figure, machineLine, median, table } from './tables.mjs'

const FULL = { entries: 1_000_000, samples: 15 }
const QUICK = { entries: 100_000, samples: 7 }
/** Entries per commit, as at 50 to 500 parallel requests. */
const COMMIT = 500
/** Entries per statement and per step of the summaries. A daemon takes a step each second. */
const BATCH = 1_000
const WARM_UP_ROUNDS = 15
const DAYS = 6
const DAY_MS = 86_400_000
const USERS = 200
const MODELS = 12
const CHAINS = ['requests-0123456789ab', 'requests-ba9876543210']
const RARE_USER = 'f'.repeat(24)
/** A daemon that uses at most this much CPU per second is idle. */
const IDLE_CPU_US = 50_000
/** One of this many entries belongs to RARE_USER. */
const RARE = 50_000

const built = (file) => import(pathToFileURL(path.join(root, 'dist', file)).href)
const idOf = (kind, number) => kind + number.toString(16).padStart(23, '0')
const HASH = createHash('sha256').update('bench').digest('hex')
const POLICY = { canonical: 'internal', source: 'system_default', hash: HASH, document: { mode: 'enforce' } }
const INSPECTORS = { canary: true, dlp: true, pii: true, policy: true, prompt_shield: true }
const USAGE = { cacheReadTokens: 0, cacheWriteTokens: 0, estimated: false, inputTokens: 321, outputTokens: 123 }
const COST = { mode: 'user-completions', nanos: 21_000, points: 1, isPriceKnown: true }
const LATENCY_MS = 640

/** The facts and the end of request `number`: 3 % are rejected, 1 % fail. */
function requestOf(number, { tenantId, bundleId, requestId, atMs, period }) {
  const slot = (number * 7919) % 100
  const [status, result] = slot < 3 ? [403, 'denied'] : slot < 4 ? [502, 'failure'] : [200, 'success']
  const userId = number % RARE === 0 ? RARE_USER : idOf('a', (number * 31) % USERS)
  const keyId = userId.replace(/^./, 'c')
  const model = `provider/model-${(number * 17) % MODELS}`
  const isAnswered = result === 'success'
  const iat = Math.floor(atMs / 1000)
  const entitlement = {
    ...{ bodySha256: HASH, exp: iat + 60, iat, jti: `${bundleId}/0`, model },
    ...{ policyHash: HASH, sub: keyId, verdict: 'allowed' },
  }
  const facts = {
    ...{ bundleId, requestId, tenantId, keyId, userId, payerId: userId },
    ...{ endpoint: 'POST /api/external/chat/completions', operation: 'chat.completion' },
    ...{ startedAtMs: atMs - LATENCY_MS, requestSha256: HASH, requestedModel: model, index: 'Zero-Knowledge' },
    ...{ streamed: false, policy: POLICY, inspectors: INSPECTORS, incidents: [], documentsRetrieved: 0, heads: [] },
    attempts: isAnswered ? [{ model, status: 'served', latency_ms: LATENCY_MS }] : [],
    entitlements: isAnswered ? [entitlement] : [],
  }
  const answered = isAnswered
    ? {
        outcome: 'complete',
        model,
        usage: { ...USAGE, reasoningTokens: 0 },
        cost: { ...COST, period },
        firstTokenMs: 90,
      }
    : undefined
  const error = isAnswered ? undefined : result === 'denied' ? 'PROMPT_BLOCKED' : 'UPSTREAM_ERROR'
  return [facts, { atMs, latencyMs: LATENCY_MS, result, status, error, responseSha256: HASH, answered }]
}

/**
 * Writes the chains of two daemons, as their ledgers do, ending now. Passes the entries on to the projector in memory,
 * as a daemon does. Continues a store that has fewer entries. Returns an entry in the middle, the time, and the cost of
 * the summaries.
 */
async function fill(options, entries) {
  const { openDatabase } = await built('daemon/platform/db/database.js')
  const { insertRows } = await built('daemon/platform/db/insert-rows.js')
  const { findHead, linkEntry, signCommit } = await built('daemon/records/evidence/chains.js')
  const { createLogProjector } = await built('daemon/records/evidence/log-projector.js')
  const { toRequestEntry } = await built('daemon/records/evidence/request-entry.js')
  const { newBundleId, newCommitId, newRequestId } = await built('shared/ids.js')
  const { isoTime, systemClock } = await built('shared/time.js')
  const db = await openDatabase(options)
  const { id: tenantId } = await db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
  const projector = createLogProjector({ db, clock: systemClock, log: console })
  const nowMs = Date.now()
  const timeOf = (number) => Math.floor(nowMs - ((entries - number) / entries) * DAYS * DAY_MS)
  const heads = new Map()
  for (const chain of CHAINS) heads.set(chain, await findHead(db, tenantId, chain))
  const written = [...heads.values()].reduce((sum, { size }) => sum + size, 0)
  if (written > entries) throw new BenchError(`the store already has ${figure(written)} entries`)
  const signer = { kid: 'bench', name: 'bench', sign: () => Buffer.alloc(64) }

  function batchFrom(from) {
    // Batches alternate, so the chains overlap in time.
    const chain = CHAINS[(from / BATCH) % CHAINS.length]
    const [rows, drafts, commits] = [[], [], []]
    let head = heads.get(chain)
    for (let first = from; first < Math.min(entries, from + BATCH); first += COMMIT) {
      const commitId = newCommitId(timeOf(first))
      const own = []
      for (let number = first; number < Math.min(entries, first + COMMIT); number++) {
        const atMs = timeOf(number)
        const [bundleId, requestId] = [newBundleId(atMs), newRequestId(atMs)]
        const period = isoTime(atMs).slice(0, 7)
        const draft = toRequestEntry(...requestOf(number, { tenantId, bundleId, requestId, atMs, period }))
        const row = linkEntry(head, { chain, commitId, leafIndex: own.length }, draft)
        head = { size: head.size + 1, hash: row.entry_hash }
        own.push(row)
        drafts.push(draft)
      }
      rows.push(...own)
      commits.push(signCommit(commitId, own, signer, timeOf(first)))
    }
    heads.set(chain, head)
    return { chain, rows, drafts, commits }
  }
  const write = ({ rows, commits }) =>
    db.transaction().execute(async (tx) => {
      await insertRows(tx, 'evidence_entries', rows)
      await insertRows(tx, 'evidence_commits', commits)
    })
  let summaryCpuUs = 0
  async function summarise({ chain, rows, drafts }) {
    const cpu = process.cpuUsage()
    projector.follow(tenantId, chain, rows, drafts)
    await projector.run()
    const { user, system } = process.cpuUsage(cpu)
    summaryCpuUs += user + system
  }

  const startedAt = performance.now()
  try {
    let writing = Promise.resolve()
    let last
    for (let from = written; from < entries; from += BATCH) {
      const batch = batchFrom(from)
      await writing
      if (last) await summarise(last)
      writing = write(batch)
      writing.catch(() => {})
      last = batch
      if (from % 1_000_000 === 0)
        console.error(`${figure(from)} entries, ${figure((performance.now() - startedAt) / 1000)} s`)
    }
    await writing
    if (last) await summarise(last)
    const { id, payload } = await db
      .selectFrom('evidence_entries')
      .select(['id', 'payload'])
      .where('tenant_id', '=', tenantId)
      .where('chain', '=', CHAINS[0])
      .where('seq', '=', Math.floor(entries / 4))
      .executeTakeFirstOrThrow()
    const { request_id: requestId } = JSON.parse(payload)
    const seconds = (performance.now() - startedAt) / 1000
    return { id, requestId, seconds, written: entries - written, summaryCpuUs: summaryCpuUs / (entries - written) }
  } finally {
    await projector.close()
    await db.destroy()
  }
}

const LOGS = '/api/external/activity-logs?limit=20'
/** A period that begins within a block of each level. */
const PART = `&startDate=${new Date(Date.now() - 2.4 * DAY_MS).toISOString()}`
const MONTH = `&startDate=${new Date(Date.now() - 30 * DAY_MS).toISOString().slice(0, 10)}`

/** The measured calls. `after` is the position from which a tail continues. */
const calls = ({ entries, id, requestId, after }) => ({
  'first page': LOGS,
  'first page, 30 days': LOGS + MONTH,
  'first page, 2.4 days': LOGS + PART,
  'oldest first': `${LOGS}&sortOrder=asc`,
  'page in the middle': `${LOGS}&page=${Math.floor(entries / 40)}`,
  'last page': `${LOGS}&page=${Math.ceil(entries / 20)}`,
  'type=api_access': `${LOGS}&type=api_access`,
  'severity=error (1 %)': `${LOGS}&severity=error`,
  'severity=error, 2.4 days': `${LOGS}&severity=error${PART}`,
  'status=4xx (3 %)': `${LOGS}&status=4xx`,
  'status=4xx, page in the middle': `${LOGS}&status=4xx&page=${Math.floor((entries * 0.03) / 40)}`,
  'userId (0.5 %)': `${LOGS}&userId=${idOf('a', 3)}`,
  [`userId (1 in ${figure(RARE)})`]: `${LOGS}&userId=${RARE_USER}`,
  'userId without entries': `${LOGS}&userId=${'e'.repeat(24)}`,
  'model and outcome': `${LOGS}&model=provider/model-3&outcome=failure`,
  'search=upstream': `${LOGS}&search=upstream`,
  'search without a match': `${LOGS}&search=zzzz`,
  bundleId: `${LOGS}&bundleId=${id}`,
  requestId: `${LOGS}&requestId=${requestId}`,
  'audit-logs': '/api/external/audit-logs?limit=20',
  'transparency/entries': '/api/external/transparency/entries?limit=20',
  'tail: nothing new': `${LOGS}&after=${encodeURIComponent(after)}`,
  'tail: start': `${LOGS}&after=now`,
})

async function get(agent, url, key) {
  const startedAt = performance.now()
  const request = http.request(url, { agent, headers: { authorization: `Bearer ${key}` } })
  request.end()
  const [response] = await once(request, 'response')
  const chunks = []
  for await (const chunk of response) chunks.push(chunk)
  const text = Buffer.concat(chunks).toString()
  if (response.statusCode !== 200) throw new BenchError(`GET ${url}: ${response.statusCode} ${text}`)
  return { ms: performance.now() - startedAt, text }
}

/**
 * Waits until a process uses little CPU. At its start, a daemon makes the checkpoints of all entries that the bench has
 * written. This takes minutes for 10,000,000 entries.
 */
async function untilIdle(pid) {
  for (let before = processCpuUs(pid); ; ) {
    await sleep(1_000)
    const now = processCpuUs(pid)
    if (now - before < IDLE_CPU_US) return
    before = now
  }
}

async function measure(session, { store, databaseUrl, plan }) {
  const dir = store ?? path.join(session.dir, 'store')
  // The first start creates schema, tenant and operator. The store is filled while the daemon is stopped.
  const first = spawnDaemon(session, { dir, databaseUrl })
  await first.child.listening
  await first.child.stop()
  const options = databaseUrl
    ? { kind: 'postgres', url: databaseUrl }
    : { kind: 'sqlite', dataDir: path.join(dir, 'data') }
  const filled = await fill(options, plan.entries)
  const { child, key } = spawnDaemon(session, { dir, cpu: CPU.measured, databaseUrl, key: first.key })
  const { url } = await child.listening
  await untilIdle(child.pid)
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
  try {
    const read = (target) => get(agent, new URL(target, url), key)
    const after = JSON.parse((await read(`${LOGS}&after=now`)).text).data.position
    const targets = Object.entries(calls({ ...plan, ...filled, after }))
    // V8 compiles the code of lists during the first hundreds of calls.
    for (let round = 0; round < WARM_UP_ROUNDS; round++) for (const [, target] of targets) await read(target)
    const times = {}
    for (const [name, target] of targets) {
      const taken = []
      // A slow call is repeated for at most 5 s.
      const until = performance.now() + 5_000
      while (taken.length < plan.samples && performance.now() < until) taken.push((await read(target)).ms)
      times[name] = taken
    }
    return { ...filled, times }
  } finally {
    agent.destroy()
    await child.stop()
  }
}

/**
 * `npm run bench -- logs`: prints the table and returns all figures.
 * @param {{quick: boolean, rounds: number | undefined, dataDir: string | undefined, noBuild: boolean, postgres: string | undefined, entries: number | undefined, store: string | undefined}} options
 */
export async function benchLogs({ quick, rounds, dataDir, noBuild, postgres, entries, store }) {
  const plan = { ...(quick ? QUICK : FULL), ...(rounds && { samples: rounds }), ...(entries && { entries }) }
  if (!noBuild) buildProject()
  const machine = describeMachine(store ?? dataDir)
  const engine = postgres ? 'PostgreSQL' : 'SQLite'
  const figures = await withSession({ dataDir }, (session) =>
    measure(session, { store: store && path.resolve(store), databaseUrl: postgres, plan }),
  )
  console.log(`${machineLine(machine)}\n`)
  console.log(
    `${figure(plan.entries)} entries in ${DAYS} days on ${engine}. ${figure(figures.written)} of them were written and ` +
      `summarised in ${figure(figures.seconds)} s; the summaries took ${figure(figures.summaryCpuUs, 1)} µs of CPU each. ` +
      `${plan.samples} calls each, milliseconds\n`,
  )
  console.log(
    table(
      ['call', 'median', 'slowest'],
      Object.entries(figures.times).map(([name, taken]) => [
        name,
        figure(median(taken), 1),
        figure(Math.max(...taken), 1),
      ]),
    ),
  )
  return { machine, plan, engine, ...figures }
}
