// Measures pages of a long log: fills a store with entries, starts a real daemon on it and reads over HTTP, one call
// after another. Run: npm run bench -- logs [--entries N] [--postgres URL]
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import http from 'node:http'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { BenchError, buildProject, root } from './build.mjs'
import { spawnDaemon } from './candidates.mjs'
import { CPU, describeMachine } from './machine.mjs'
import { withSession } from './session.mjs'
import { figure, machineLine, median, table } from './tables.mjs'

const FULL = { entries: 1_000_000, samples: 15 }
const QUICK = { entries: 100_000, samples: 7 }
/** Entries per commit and per statement. Payloads of a batch are in memory at once. */
const BATCH = 500
const DAYS = 6
const DAY_MS = 86_400_000
const USERS = 200
const MODELS = 12
const CHAINS = ['requests-0123456789ab', 'requests-ba9876543210']
const RARE_USER = 'f'.repeat(24)
/** One of this many entries belongs to RARE_USER. */
const RARE = 50_000

const built = (file) => import(pathToFileURL(path.join(root, 'dist', file)).href)
const idOf = (kind, number) => kind + number.toString(16).padStart(23, '0')
const sha256 = (text) => createHash('sha256').update(text).digest('hex')
const HASH = sha256('bench')

/** The receipt of request `number`: 3 % are rejected, 1 % fail. */
function payloadOf(number, { bundleId, requestId, at }) {
  const slot = (number * 7919) % 100
  const [status, result] = slot < 3 ? [403, 'denied'] : slot < 4 ? [502, 'failure'] : [200, 'success']
  const owner = number % RARE === 0 ? RARE_USER : idOf('a', (number * 31) % USERS)
  const model = `provider/model-${(number * 17) % MODELS}`
  const answered = result === 'success'
  return {
    ...{ version: 1, kind: 'request', type: 'api_access', actor: 'key', bundle_id: bundleId, request_id: requestId },
    attempts: answered
      ? [
          {
            entitlement: {
              ...{ body_sha256: HASH, exp: 1_800_000_000, iat: 1_800_000_000, jti: `${bundleId}/0`, model },
              ...{ policy_hash: HASH, sub: idOf('c', (number * 31) % USERS), verdict: 'allowed' },
            },
            ...{ latency_ms: 640, model, status: 'served' },
          },
        ]
      : [],
    compliance_category: result === 'denied' ? 'security' : 'data_protection',
    cost: answered ? { mode: 'user-completions', nanos: 21_000, points: 1 } : null,
    documents_retrieved: 0,
    endpoint: 'POST /api/external/chat/completions',
    ...(answered ? {} : { error: result === 'denied' ? 'PROMPT_BLOCKED' : 'UPSTREAM_ERROR' }),
    index: 'Zero-Knowledge',
    inspection: Object.fromEntries(
      ['canary', 'dlp', 'pii', 'policy', 'prompt_shield'].map((name) => [name, { verdict: 'clean' }]),
    ),
    ...{ issued_at: at, key_id: owner.replace(/^./, 'c'), user_id: owner },
    metadata: { ending: answered ? 'complete' : null, streamed: false },
    ...{ mode: 'enforce', model: answered ? model : null, requested_model: model, operation: 'chat.completion' },
    ...{ outcome: result === 'denied' ? 'denied' : 'allowed', result, status },
    policy: { hash: HASH, name: 'internal', source: 'system_default' },
    ...{ request_sha256: HASH, response_sha256: HASH },
    severity: result === 'success' ? 'info' : result === 'denied' ? 'warning' : 'error',
    times: { first_token_ms: answered ? 640 : null, latency_ms: 640, started_at: at },
    usage: answered ? { estimated: false, input_tokens: 321, output_tokens: 123 } : null,
  }
}

/** Writes the chains of two daemons, as their ledgers do, ending now. Returns facts of a few entries. */
async function fill(options, entries) {
  const { openDatabase } = await built('daemon/platform/db/database.js')
  const { insertRows } = await built('daemon/platform/db/insert-rows.js')
  const { linkEntry, signCommit } = await built('daemon/records/evidence/chains.js')
  const { GENESIS_HASH } = await built('shared/evidence/entry.js')
  const { toCanonicalJson } = await built('shared/canonical-json.js')
  const { newBundleId, newCommitId, newRequestId } = await built('shared/ids.js')
  const { isoTime } = await built('shared/time.js')
  const db = await openDatabase(options)
  const { id: tenantId } = await db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
  const nowMs = Date.now()
  const timeOf = (number) => Math.floor(nowMs - ((entries - number) / entries) * DAYS * DAY_MS)
  const heads = new Map(CHAINS.map((chain) => [chain, { size: 0, hash: GENESIS_HASH }]))
  const signer = { kid: 'bench', name: 'bench', sign: () => Buffer.alloc(64) }
  let middle
  const startedAt = performance.now()
  try {
    for (let from = 0; from < entries; from += BATCH) {
      // Batches alternate, so the chains overlap in time.
      const chain = CHAINS[(from / BATCH) % CHAINS.length]
      const commitId = newCommitId(timeOf(from))
      const rows = []
      for (let number = from; number < Math.min(entries, from + BATCH); number++) {
        const atMs = timeOf(number)
        const [id, requestId] = [newBundleId(atMs), newRequestId(atMs)]
        const payload = toCanonicalJson(payloadOf(number, { bundleId: id, requestId, at: isoTime(atMs) }))
        const head = heads.get(chain)
        const row = linkEntry(
          head,
          { chain, commitId, leafIndex: rows.length },
          { id, tenantId, createdAtMs: atMs, payload },
        )
        heads.set(chain, { size: head.size + 1, hash: row.entry_hash })
        rows.push(row)
        if (number === Math.floor(entries / 2)) middle = { id, requestId }
      }
      await insertRows(db, 'evidence_entries', rows)
      await insertRows(db, 'evidence_commits', [signCommit(commitId, rows, signer, timeOf(from))])
    }
  } finally {
    await db.destroy()
  }
  return { ...middle, seconds: (performance.now() - startedAt) / 1000 }
}

/** Summarises the whole log, as a daemon does while entries arrive. */
async function summarise(options) {
  const { openDatabase } = await built('daemon/platform/db/database.js')
  const { createLogProjector } = await built('daemon/records/evidence/log-projector.js')
  const { systemClock } = await built('shared/time.js')
  const db = await openDatabase(options)
  const startedAt = performance.now()
  const cpu = process.cpuUsage()
  try {
    await createLogProjector({ db, clock: systemClock, log: console }).run()
    const { user, system } = process.cpuUsage(cpu)
    return { summarySeconds: (performance.now() - startedAt) / 1000, summaryCpuSeconds: (user + system) / 1e6 }
  } finally {
    await db.destroy()
  }
}

const LOGS = '/api/external/activity-logs?limit=20'
const MONTH = `&startDate=${new Date(Date.now() - 30 * DAY_MS).toISOString().slice(0, 10)}`

/** The measured calls. `after` is the position from which a tail continues. */
const calls = ({ entries, id, requestId, after }) => ({
  'first page': LOGS,
  'first page, 30 days': LOGS + MONTH,
  'oldest first': `${LOGS}&sortOrder=asc`,
  'page in the middle': `${LOGS}&page=${Math.floor(entries / 40)}`,
  'last page': `${LOGS}&page=${Math.ceil(entries / 20)}`,
  'type=api_access': `${LOGS}&type=api_access`,
  'severity=error (1 %)': `${LOGS}&severity=error`,
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

async function measure(session, engine, databaseUrl, plan) {
  const dir = path.join(session.dir, engine)
  // The first start creates schema, tenant and operator. The store is filled while the daemon is stopped.
  const first = spawnDaemon(session, { dir, databaseUrl })
  await first.child.listening
  await first.child.stop()
  const options = databaseUrl
    ? { kind: 'postgres', url: databaseUrl }
    : { kind: 'sqlite', dataDir: path.join(dir, 'data') }
  const filled = { ...(await fill(options, plan.entries)), ...(await summarise(options)) }
  const { child, key } = spawnDaemon(session, { dir, cpu: CPU.measured, databaseUrl, key: first.key })
  const { url } = await child.listening
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
  try {
    const read = (target) => get(agent, new URL(target, url), key)
    const after = JSON.parse((await read(`${LOGS}&after=now`)).text).data.position
    const times = {}
    for (const [name, target] of Object.entries(calls({ ...plan, ...filled, after }))) {
      const taken = []
      await read(target)
      // A slow call is repeated for at most 20 s.
      const until = performance.now() + 20_000
      while (taken.length < plan.samples && performance.now() < until) taken.push((await read(target)).ms)
      times[name] = taken
      console.error(`${engine} ${name}: ${figure(median(taken), 1)} ms`)
    }
    return { ...filled, times }
  } finally {
    agent.destroy()
    await child.stop()
  }
}

/**
 * `npm run bench -- logs`: prints the table and returns all figures.
 * @param {{quick: boolean, rounds: number | undefined, dataDir: string | undefined, noBuild: boolean, postgres: string | undefined, entries: number | undefined}} options
 */
export async function benchLogs({ quick, rounds, dataDir, noBuild, postgres, entries }) {
  const plan = { ...(quick ? QUICK : FULL), ...(rounds && { samples: rounds }), ...(entries && { entries }) }
  if (!noBuild) buildProject()
  const machine = describeMachine(dataDir)
  const engine = postgres ? 'PostgreSQL' : 'SQLite'
  const figures = await withSession({ dataDir }, (session) => measure(session, engine, postgres, plan))
  console.log(`${machineLine(machine)}\n`)
  console.log(
    `${figure(plan.entries)} entries in ${DAYS} days on ${engine}, written in ${figure(figures.seconds)} s. ` +
      `The summaries took ${figure((figures.summaryCpuSeconds / plan.entries) * 1e6, 1)} µs of CPU per entry. ` +
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
