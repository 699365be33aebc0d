// Measures what one tenant can do to others through the front door: it has many keys and holds as many requests as it
// can. Measured are a chat of another tenant, its administration, and the probes. Run: npm run bench -- shares

import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { BenchError, buildProject, root } from './build.mjs'
import { spawnDaemon, startMock } from './candidates.mjs'
import { CPU, describeMachine } from './machine.mjs'
import { withSession } from './session.mjs'
import { figure, machineLine, table } from './tables.mjs'

const FULL_SECONDS = 12
const QUICK_SECONDS = 5
const WARM_UP_SECONDS = 3
const KEYS = 50
/** The streams of an attacker last 30 s. */
const SLOW_STREAM = { chunks: 60, intervalMs: 500 }

const ATTACKS = [
  { name: 'nobody else' },
  { name: '2,500 slow streams', attack: 'streams', count: 2_500 },
  { name: '9,500 requests without their body', attack: 'heads', count: 9_500 },
  { name: '9,500 such requests with a wrong key', attack: 'heads', count: 9_500, isUnknown: true },
  { name: '100 slow streams, per_provider: 20', attack: 'streams', count: 100, perProvider: 20 },
]

const PROBES = [
  { name: 'chat', everyMs: 50, method: 'POST', path: '/v1/chat/completions' },
  { name: 'list', everyMs: 100, method: 'GET', path: '/api/external/groups' },
  { name: 'change', everyMs: 500, method: 'POST', path: '/api/external/groups' },
  { name: 'readyz', everyMs: 200, method: 'GET', path: '/readyz' },
]
const chat = { model: 'mock/mock-model', messages: [{ role: 'user', content: 'Hello' }] }

async function call(url, key, method, target, body) {
  const headers = { authorization: `Bearer ${key}`, ...(body && { 'content-type': 'application/json' }) }
  const reply = await fetch(url + target, { method, headers, ...(body && { body: JSON.stringify(body) }) })
  return { status: reply.status, text: await reply.text() }
}

/** Creates a tenant with this number of keys without rate limits. */
async function createTenant(url, operatorKey, name, keys) {
  const must = async (key, target, body) => {
    const { status, text } = await call(url, key, 'POST', target, body)
    if (status !== 201) throw new BenchError(`${target} responded with ${status}: ${text}`)
    return JSON.parse(text)
  }
  const admin = { name: 'Ada', email: `ada@${name}.example` }
  const { secret } = await must(operatorKey, '/api/admin/tenants', { name, admin })
  const unlimited = { dailyLimit: null, monthlyLimit: null }
  const rateLimit = { requestsPerMinute: null, requestsPerHour: null }
  const secrets = []
  for (let nth = 0; nth < keys; nth++) {
    const body = { name: `key ${nth}`, expiresAt: null, ...unlimited, rateLimit }
    secrets.push((await must(secret, '/api/admin/api-keys', body)).secret)
  }
  return secrets
}

/** Calls at a fixed rate, whatever the answers. Returns the latencies of each probe, and the failures. */
async function measure(url, key, seconds) {
  const rows = PROBES.map((probe) => ({ probe: probe.name, latenciesMs: [], statuses: {} }))
  let nth = 0
  const loop = async (probe, row) => {
    const startMs = performance.now()
    const running = []
    for (let sent = 0; sent * probe.everyMs < seconds * 1000; sent++) {
      await sleep(Math.max(0, startMs + sent * probe.everyMs - performance.now()))
      const group = { name: `group ${process.hrtime.bigint()} ${nth++}`, description: 'A group' }
      const body = probe.method === 'GET' ? undefined : probe.name === 'chat' ? chat : group
      const sentMs = performance.now()
      const done = call(url, key, probe.method, probe.path, body).then(
        ({ status }) => status,
        () => 'no answer',
      )
      running.push(
        done.then((status) => {
          row.latenciesMs.push(performance.now() - sentMs)
          row.statuses[status] = (row.statuses[status] ?? 0) + 1
        }),
      )
    }
    await Promise.all(running)
    row.latenciesMs.sort((one, other) => one - other)
  }
  await Promise.all(PROBES.map((probe, at) => loop(probe, rows[at])))
  return rows
}

const at = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]

/**
 * `npm run bench -- shares`: prints latencies and failures of the other tenant under each attack.
 * @param {{quick: boolean, dataDir: string | undefined, noBuild: boolean}} options
 */
export async function benchShares({ quick, dataDir, noBuild }) {
  const seconds = quick ? QUICK_SECONDS : FULL_SECONDS
  if (!noBuild) buildProject()
  const machine = describeMachine(dataDir)
  const runs = []
  await withSession({ dataDir }, async (session) => {
    const mock = await startMock(session)
    await mock.shape(SLOW_STREAM)
    for (const [nth, { name, attack, count, isUnknown, perProvider = 0 }] of ATTACKS.entries()) {
      const dir = path.join(session.dir, `shares-${nth}`)
      const settings = { concurrency: { per_provider: perProvider } }
      const { child, key } = spawnDaemon(session, { dir, mockUrl: mock.url, cpu: CPU.measured, settings })
      const { url } = await child.listening
      const many = await createTenant(url, key, 'attacker', KEYS)
      const [single] = await createTenant(url, key, 'other', 1)
      await measure(url, single, WARM_UP_SECONDS)
      const keys = isUnknown ? [`sk-${'0'.repeat(64)}`] : many
      const program = path.join(root, 'bench', 'shares-attacker.mjs')
      const argv = [process.execPath, program, JSON.stringify({ url, keys, count, attack })]
      const attacker = attack && session.start({ name: 'attacker', argv, cpu: CPU.driver })
      await attacker?.listening
      const rows = await measure(url, single, seconds)
      await attacker?.stop()
      const answers = attacker && JSON.parse(attacker.output().trim().split('\n').at(-1))
      await child.stop()
      for (const { probe, latenciesMs, statuses } of rows) {
        const percentiles = { p50: at(latenciesMs, 0.5), p99: at(latenciesMs, 0.99), max: latenciesMs.at(-1) }
        runs.push({ attack: name, answers, probe, statuses, ...percentiles })
      }
    }
  })
  console.log(`${machineLine(machine)}\n`)
  const counts = (statuses = {}) =>
    Object.entries(statuses)
      .map(([status, count]) => `${count} × ${status}`)
      .join(', ')
  console.log(
    `${table(
      ['attack', 'answers to the attacker', 'call of another tenant', 'answers', 'p50 ms', 'p99 ms', 'max ms'],
      runs.map(({ attack, answers, probe, statuses, p50, p99, max }) => [
        ...[attack, counts(answers), probe, counts(statuses)],
        ...[p50, p99, max].map((ms) => figure(ms, 1)),
      ]),
    )}\n`,
  )
  return { machine, runs }
}
