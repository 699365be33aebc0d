// Compares deliveries with a plain loop that only sends POSTs. Measures the effect of failing endpoints on other
// endpoints and chats.
// Run: npm run bench -- webhooks
import { createHmac, randomBytes, randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { Agent, Pool, request } from 'undici'
import { buildProject, root } from './build.mjs'
import { startMock } from './candidates.mjs'
import { CPU, describeMachine } from './machine.mjs'
import { withSession } from './session.mjs'
import { figure, machineLine, median, table } from './tables.mjs'

const FULL = { rounds: 5, events: 400, endpoints: 50, loadSeconds: 12, chatSeconds: 4, chatRounds: 4 }
const QUICK = { rounds: 2, events: 200, endpoints: 50, loadSeconds: 8, chatSeconds: 2, chatRounds: 2 }

/** Interval between two failovers. Each failover creates one event for every hanging endpoint. */
const EVENT_MS = 200

const built = (file) => import(pathToFileURL(path.join(root, 'dist', file)).href)
const silentLog = { debug() {}, info() {}, warn() {}, error: (facts, message) => console.error(message, facts.error) }

async function loadModules() {
  const [database, migrate, ledger, time, ids, seal, dispatcher, secret, rows, metrics] = await Promise.all(
    [
      'daemon/platform/db/database.js',
      'daemon/platform/db/migrate.js',
      'daemon/records/ledger/ledger.js',
      'shared/time.js',
      'shared/ids.js',
      'daemon/platform/secrets/seal.js',
      'daemon/webhooks/dispatch/dispatcher.js',
      'daemon/webhooks/signing-secret.js',
      'daemon/platform/db/insert-rows.js',
      'daemon/platform/metrics/registry.js',
    ].map(built),
  )
  return { ...database, ...migrate, ...ledger, ...time, ...ids, ...seal, ...dispatcher, ...secret, ...rows, ...metrics }
}

/** Opens a store, a ledger and a dispatcher, connected as in the daemon. */
async function openWorld(modules, dir) {
  const db = await modules.openDatabase({ kind: 'sqlite', dataDir: dir })
  await modules.migrateDatabase(db)
  const clock = modules.systemClock
  const masterKey = modules.createMasterKey(randomBytes(32).toString('hex'))
  const metrics = modules.createMetrics()
  let dispatcher
  const ledger = modules.createLedger({ db, clock, log: silentLog, onEvents: () => dispatcher?.wake() })
  const now = () => new Date().toISOString()
  const guard = { resolve: async () => ['127.0.0.1'], allowPrivate: true }
  dispatcher = await modules.startDispatcher({ db, clock, log: silentLog, guard, masterKey, metrics })
  return {
    db,
    ledger,
    wake: () => dispatcher.wake(),
    async tenant() {
      const id = modules.newId()
      const row = { id, name: id, status: 'Active', created_at: now(), updated_at: now(), search_text: id }
      await modules.insertRows(db, 'tenants', [row])
      return id
    },
    async endpoint(tenantId, url) {
      const id = modules.newId()
      const secret = modules.sealSigningSecret(masterKey, { id, tenant_id: tenantId }, modules.newSigningSecret())
      const row = {
        id,
        tenant_id: tenantId,
        url,
        description: '',
        events: '["*"]',
        enabled: 1,
        disabled_reason: null,
        failure_count: 0,
        secret,
        previous_secret: null,
        previous_secret_until: null,
        created_at: now(),
        updated_at: now(),
        last_delivery_at: null,
        last_status: null,
      }
      await modules.insertRows(db, 'webhook_endpoints', [row])
    },
    event: (tenantId) => ({
      id: `evt_${modules.newId()}`,
      tenant_id: tenantId,
      type: 'api:model_failover',
      created_at: now(),
      data: eventData(),
    }),
    insertEvents: (events) => modules.insertRows(db, 'outbox_events', events),
    /** Returns the number of successful deliveries so far. */
    async delivered() {
      const { values } = await metrics.getSingleMetric('aigw_webhook_deliveries_total').get()
      return values.find(({ labels }) => labels.state === 'delivered')?.value ?? 0
    },
    async close() {
      await dispatcher.close()
      await ledger.close()
      await db.destroy()
    },
  }
}

const eventData = () =>
  JSON.stringify({
    failedModel: 'openai/gpt-4o',
    reason: 'timeout',
    nextModel: 'anthropic/claude',
    latencyMs: Date.now(),
    userId: '5f43a1c2d4e5f60718293a4d',
    apiKeyId: '5f43a1c2d4e5f60718293a4c',
  })

async function timed(count, run) {
  const cpu = process.cpuUsage()
  const from = performance.now()
  await run()
  const seconds = (performance.now() - from) / 1000
  const { user, system } = process.cpuUsage(cpu)
  return { perSecond: count / seconds, cpuUs: (user + system) / count }
}

/** The baseline: sends the POSTs of the dispatcher with the same concurrency, without storage. */
async function bareLoop(url, count, inFlight) {
  const pool = new Pool(url, { connections: inFlight, pipelining: 1 })
  const secret = `whsec_${randomBytes(32).toString('hex')}`
  let left = count
  const work = async () => {
    while (left-- > 0) {
      const id = `evt_${randomBytes(12).toString('hex')}`
      const body = `{"id":"${id}","type":"api:model_failover","created":${Math.floor(Date.now() / 1000)},"data":${eventData()}}`
      const t = Math.floor(Date.now() / 1000)
      const v1 = createHmac('sha256', secret).update(`${t}.`).update(body).digest('hex')
      const headers = {
        'content-type': 'application/json',
        'x-service-event': 'api:model_failover',
        'x-service-delivery': randomUUID(),
        'x-service-signature': `t=${t},v1=${v1}`,
      }
      const response = await pool.request({ method: 'POST', path: '/hook', headers, body })
      await response.body.text()
    }
  }
  await Promise.all(Array.from({ length: inFlight }, work))
  await pool.close()
}

async function measureThroughput(modules, session, urls, plan) {
  const world = await openWorld(modules, path.join(session.dir, 'throughput'))
  const count = plan.events * plan.endpoints
  const runs = []
  try {
    const tenant = await world.tenant()
    for (let nth = 0; nth < plan.endpoints; nth++) await world.endpoint(tenant, `${urls.good}/hook`)
    const deliver = async () => {
      await world.insertEvents(Array.from({ length: plan.events }, () => world.event(tenant)))
      const before = await world.delivered()
      return timed(count, async () => {
        world.wake()
        do await sleep(5)
        while ((await world.delivered()) < before + count)
      })
    }
    await deliver()
    await bareLoop(urls.good, count, plan.endpoints * 2)
    for (let round = 0; round < plan.rounds; round++) {
      const ours = await deliver()
      const bare = await timed(count, () => bareLoop(urls.good, count, plan.endpoints * 2))
      runs.push({ ours, bare })
    }
  } finally {
    await world.close()
  }
  const of = (who, field) => median(runs.map((run) => run[who][field]))
  return {
    deliveries: count,
    perSecond: of('ours', 'perSecond'),
    barePerSecond: of('bare', 'perSecond'),
    cpuUs: of('ours', 'cpuUs'),
    bareCpuUs: of('bare', 'cpuUs'),
  }
}

/**
 * Sends events to endpoints. `mix` lists the kinds of endpoints that every tenant has, or is a function that returns
 * the kinds for the nth tenant. Returns the delays of the good endpoints.
 */
async function measureDelays(modules, session, urls, { name, tenants, mix, eventsPerSecond, seconds }) {
  const world = await openWorld(modules, path.join(session.dir, name))
  try {
    const ids = []
    const kindsOf = (nth) => (typeof mix === 'function' ? mix(nth) : mix)
    const goodOf = (nth) => kindsOf(nth).filter((kind) => kind === 'good').length
    for (let nth = 0; nth < tenants; nth++) {
      const tenant = await world.tenant()
      ids.push(tenant)
      for (const kind of kindsOf(nth)) await world.endpoint(tenant, `${urls[kind]}/hook`)
    }
    await (await fetch(`${urls.good}/report`)).json()
    globalThis.gc?.()
    const before = process.memoryUsage().rss
    let peak = before
    const from = performance.now()
    let sent = 0
    let expected = 0
    for (; performance.now() < from + seconds * 1000; ) {
      const due = Math.floor(((performance.now() - from) / 1000) * eventsPerSecond)
      const events = []
      for (; sent < due; sent++) {
        events.push(world.event(ids[sent % ids.length]))
        expected += goodOf(sent % ids.length)
      }
      // Commits run concurrently, as they do for requests to the daemon.
      for (const event of events) world.ledger.commit({ events: [event] }).catch((error) => console.error(error))
      peak = Math.max(peak, process.memoryUsage().rss)
      await sleep(2)
    }
    await sleep(300)
    const report = await (await fetch(`${urls.good}/report`)).json()
    return { ...report, expected, memoryMib: (peak - before) / 1_048_576 }
  } finally {
    await world.close()
  }
}

/** Measures chats of the real daemon while `hanging` endpoints never respond. */
async function measureChat(session, mock, urls, hanging, seconds, nth) {
  const dir = path.join(session.dir, `chat-${hanging}-${nth}`)
  const key = `sk-${randomBytes(32).toString('hex')}`
  const config = `${dir}.yaml`
  const provider = (base_url) => ({ kind: 'openai', base_url, api_key: 'sk-upstream' })
  const providers = { mock: provider(`${mock.url}/v1`), down: provider(urls.failing) }
  writeFileSync(config, JSON.stringify({ providers }))
  const child = session.start({
    name: 'gateway',
    argv: [
      process.execPath,
      path.join(root, 'bin', 'aigwd.js'),
      '--config',
      config,
      '--data-dir',
      dir,
      '--listen',
      '127.0.0.1:0',
    ],
    cpu: CPU.measured,
    env: { AIGW_BOOTSTRAP_KEY: key, WEBHOOKS_ALLOW_PRIVATE: 'true' },
  })
  const { url } = await child.listening
  const agent = new Agent({ pipelining: 1 })
  const post = async (target, body) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const response = await request(url + target, {
      method: 'POST',
      dispatcher: agent,
      headers,
      body: JSON.stringify(body),
    })
    const text = await response.body.text()
    if (response.statusCode >= 300) throw new Error(`status ${response.statusCode}: ${text}`)
  }
  for (let made = 0; made < hanging; made++)
    await post('/api/admin/webhooks', { url: `${urls.silent}/hook`, description: '', events: ['*'], enabled: true })
  const chat = (body) =>
    post('/api/external/chat/completions', { prompt: 'hi', index: 'Zero-Knowledge', model: 'mock/mock-model', ...body })
  const tookMs = []
  const until = performance.now() + (seconds + 1) * 1000
  const work = async () => {
    while (performance.now() < until) {
      const from = performance.now()
      await chat()
      // The first second is a warm-up that is not measured.
      if (from > until - seconds * 1000) tookMs.push(performance.now() - from)
    }
  }
  /**
   * Sends chats that fail over, because each failover creates events for the endpoints. The measurement excludes these
   * chats.
   */
  const makeEvents = async () => {
    while (performance.now() < until) {
      await chat({ model: 'down/x', fallback_models: ['mock/mock-model'] })
      await sleep(EVENT_MS)
    }
  }
  await Promise.all([...Array.from({ length: 4 }, work), makeEvents()])
  await agent.close()
  await child.stop()
  tookMs.sort((a, b) => a - b)
  return { p50Ms: median(tookMs), p99Ms: tookMs[Math.floor(tookMs.length * 0.99)], perSecond: tookMs.length / seconds }
}

async function measureChats(session, mock, urls, plan) {
  const counts = [0, 1, 50]
  const runs = counts.map(() => [])
  for (let round = 0; round < plan.chatRounds; round++) {
    // The order alternates by round.
    for (const at of round % 2 ? [2, 1, 0] : [0, 1, 2])
      runs[at].push(await measureChat(session, mock, urls, counts[at], plan.chatSeconds, round))
  }
  return counts.map((hanging, at) => ({
    hanging,
    p50Ms: median(runs[at].map((run) => run.p50Ms)),
    p99Ms: median(runs[at].map((run) => run.p99Ms)),
  }))
}

const MIXED = ['good', 'silent', 'silent', 'silent', 'drip', 'drip', 'failing', 'failing', 'resetting', 'resetting']

const goodWithNine = (kind) => ['good', ...Array(9).fill(kind)]

/**
 * `npm run bench -- webhooks`: prints the tables and returns all figures.
 * @param {{quick: boolean, rounds: number | undefined, dataDir: string | undefined, noBuild: boolean}} options
 */
export async function benchWebhooks({ quick, rounds, dataDir, noBuild }) {
  const plan = { ...(quick ? QUICK : FULL), ...(rounds && { rounds }) }
  if (!noBuild) buildProject()
  const modules = await loadModules()
  const machine = describeMachine(dataDir)
  const figures = await withSession({ dataDir }, async (session) => {
    const receivers = session.start({
      name: 'receivers',
      argv: [process.execPath, path.join(root, 'bench', 'webhook-receivers.mjs')],
      cpu: CPU.driver,
    })
    const urls = JSON.parse((await receivers.listening).url)
    const throughput = await measureThroughput(modules, session, urls, plan)
    const load = { eventsPerSecond: 200, seconds: plan.loadSeconds }
    const delays = {
      '99 good': { tenants: 99, mix: ['good'], ...load },
      '99 good, 1 silent': { tenants: 100, mix: (nth) => [nth === 0 ? 'silent' : 'good'], ...load },
      '100 good, 900 bad': { tenants: 100, mix: MIXED, eventsPerSecond: 50, seconds: plan.loadSeconds },
      '100 good, 900 silent': {
        tenants: 100,
        mix: goodWithNine('silent'),
        eventsPerSecond: 50,
        seconds: plan.loadSeconds,
      },
      '100 good, 900 slow 2xx': {
        tenants: 100,
        mix: goodWithNine('slow'),
        eventsPerSecond: 50,
        seconds: plan.loadSeconds,
      },
    }
    const isolation = []
    for (const [name, setting] of Object.entries(delays)) {
      isolation.push({
        name,
        ...(await measureDelays(modules, session, urls, { name: name.replaceAll(/\W/g, ''), ...setting })),
      })
    }
    const mock = await startMock(session)
    return { throughput, isolation, chat: await measureChats(session, mock, urls, plan) }
  })
  const { throughput, isolation, chat } = figures
  console.log(`${machineLine({ ...machine, pinned: false })}\n`)
  console.log(
    table(
      [`${figure(throughput.deliveries)} deliveries`, 'per second', 'CPU µs each'],
      [
        ['bare loop of POSTs with HMAC', figure(throughput.barePerSecond), figure(throughput.bareCpuUs, 1)],
        ['dispatcher, durable', figure(throughput.perSecond), figure(throughput.cpuUs, 1)],
        [
          'share',
          figure(throughput.perSecond / throughput.barePerSecond, 2),
          figure(throughput.cpuUs / throughput.bareCpuUs, 2),
        ],
      ],
    ),
  )
  console.log(`\nDelay from the commit of an event to a good receiver\n`)
  console.log(
    table(
      ['endpoints', 'expected', 'delivered', 'p50 ms', 'p99 ms', 'slowest', 'memory MiB'],
      isolation.map((row) => [
        row.name,
        figure(row.expected),
        figure(row.count),
        figure(row.p50Ms),
        figure(row.p99Ms),
        figure(row.maxMs),
        figure(row.memoryMib, 1),
      ]),
    ),
  )
  console.log(`\nChats while endpoints never respond, five events per second for each endpoint\n`)
  console.log(
    table(
      ['hanging', 'p50 ms', 'p99 ms'],
      chat.map((row) => [String(row.hanging), figure(row.p50Ms, 2), figure(row.p99Ms, 2)]),
    ),
  )
  return { machine, plan, ...figures }
}
