// Measures whether lookups of one provider that hang delay the calls to another provider. The daemon's real lookups run
// on libuv's threads; slow-names.c makes them hang. Two daemons are called in turn, and the lookups of one of them hang.
// The roles change with each round, so that noise affects both alike. Run: npm run bench -- names
import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { BenchError, buildProject, root } from './build.mjs'
import { spawnDaemon } from './candidates.mjs'
import { CPU, describeMachine } from './machine.mjs'
import { withSession } from './session.mjs'
import { figure, machineLine, table } from './tables.mjs'

const PLAN = { full: { rounds: 4, seconds: 12 }, quick: { rounds: 2, seconds: 11 } }
const WARM_UP_SECONDS = 10
/** Per daemon. */
const CALLS_PER_SECOND = 50
/** After this time, no lookup of the last round hangs any more. */
const HANG_MS = 8_000
/** Concurrent calls to the provider whose names hang, spread over its hosts. Each host has its own lookup. */
const HANGING_CALLS = 32
const HANGING_HOSTS = 4

const answer = JSON.stringify({
  choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'ok' } }],
  usage: { prompt_tokens: 10, completion_tokens: 10, total_tokens: 20 },
})

/** Starts an upstream that closes each connection, so that each call needs the addresses of its name. */
function startUpstream() {
  const server = http.createServer((request, reply) => {
    request
      .resume()
      .on('end', () => reply.writeHead(200, { 'content-type': 'application/json', connection: 'close' }).end(answer))
  })
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)))
}

/** Compiles slow-names.c. Returns the path of the library. */
function buildLibrary() {
  const library = path.join(root, 'bench', '.cache', 'slow-names.so')
  mkdirSync(path.dirname(library), { recursive: true })
  const source = path.join(root, 'bench', 'slow-names.c')
  execFileSync(process.env.CC ?? 'cc', ['-O2', '-shared', '-fPIC', '-o', library, source, '-ldl'])
  return library
}

async function startGateway(session, { port }, name) {
  const hosts = Array.from({ length: HANGING_HOSTS }, (_, at) => `slow${at}`)
  const provider = (host) => ({ kind: 'openai', base_url: `http://${host}:${port}/v1`, api_key: 'sk-upstream' })
  const providers = Object.fromEntries(hosts.map((name) => [name, provider(`${name}.hang.test`)]))
  const { child, key } = spawnDaemon(session, {
    dir: path.join(session.dir, name),
    settings: { providers: { ...providers, fast: provider('fast.test') } },
    cpu: CPU.measured,
    env: { LD_PRELOAD: buildLibrary() },
  })
  const { url } = await child.listening
  const chat = async (model, signal) => {
    const reply = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] }),
      signal,
    })
    await reply.arrayBuffer()
    return reply.status
  }
  return { chat, models: hosts.map((name) => `${name}/any`) }
}

/** Keeps calls with hanging lookups in flight. Returns a function that ends them and returns their number. */
function hangCalls({ chat, models }) {
  const leaving = new AbortController()
  let ended = 0
  const call = async (at) => {
    while (!leaving.signal.aborted) {
      const status = await chat(models[at % models.length], leaving.signal).catch(() => 0)
      if (status === 200) throw new BenchError('a lookup that must hang has succeeded')
      if (status !== 0) ended++
    }
  }
  const calls = Array.from({ length: HANGING_CALLS }, (_, at) => call(at))
  return async () => {
    leaving.abort()
    await Promise.all(calls)
    return ended
  }
}

/** Calls the other provider of all daemons at a fixed rate. Returns the latencies in milliseconds by daemon. */
async function callFast(gateways, seconds) {
  const latenciesMs = gateways.map(() => [])
  const running = []
  const startMs = performance.now()
  const calls = seconds * CALLS_PER_SECOND * gateways.length
  for (let call = 0; call < calls; call++) {
    await sleep(Math.max(0, startMs + (call * seconds * 1000) / calls - performance.now()))
    const sentMs = performance.now()
    const which = call % gateways.length
    running.push(
      gateways[which].chat('fast/any').then((status) => {
        if (status !== 200) throw new BenchError(`a call to the other provider failed with ${status}`)
        latenciesMs[which].push(performance.now() - sentMs)
      }),
    )
  }
  await Promise.all(running)
  return latenciesMs
}

const at = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]

/**
 * `npm run bench -- names`: prints the latencies of the other provider, and returns all figures.
 * @param {{quick: boolean, rounds: number | undefined, dataDir: string | undefined, noBuild: boolean}} options
 */
export async function benchNames({ quick, rounds, dataDir, noBuild }) {
  const plan = { ...(quick ? PLAN.quick : PLAN.full), ...(rounds && { rounds }) }
  if (!noBuild) buildProject()
  const machine = describeMachine(dataDir)
  const upstream = await startUpstream()
  const latenciesMs = { quiet: [], hanging: [] }
  let failed = 0
  try {
    await withSession({ dataDir }, async (session) => {
      const gateways = [await startGateway(session, upstream.address(), 'one')]
      gateways.push(await startGateway(session, upstream.address(), 'other'))
      await callFast(gateways, WARM_UP_SECONDS)
      for (let round = 0; round < plan.rounds; round++) {
        const which = round % gateways.length
        const end = hangCalls(gateways[which])
        const found = await callFast(gateways, plan.seconds)
        failed += await end()
        latenciesMs.hanging.push(...found[which])
        latenciesMs.quiet.push(...found[1 - which])
        if (round + 1 < plan.rounds) await sleep(HANG_MS)
      }
    })
  } finally {
    upstream.close()
  }
  const percentiles = Object.fromEntries(
    Object.entries(latenciesMs).map(([name, values]) => {
      const sorted = values.sort((one, other) => one - other)
      return [name, { calls: sorted.length, p50: at(sorted, 0.5), p90: at(sorted, 0.9), p99: at(sorted, 0.99) }]
    }),
  )
  const row = (name, { calls, p50, p90, p99 }) => [name, figure(calls), ...[p50, p90, p99].map((ms) => figure(ms, 2))]
  const { quiet: without, hanging } = percentiles
  const change = (field) => `${figure((hanging[field] / without[field] - 1) * 100, 1)} %`
  console.log(`${machineLine(machine)}\n`)
  console.log(
    `${table(
      ['calls to the other provider', 'calls', 'p50 ms', 'p90 ms', 'p99 ms'],
      [
        row('no lookup hangs', without),
        row('lookups of one provider hang', hanging),
        ['change', '', change('p50'), change('p90'), change('p99')],
      ],
    )}\n\nCalls that failed because their lookup hung: ${figure(failed)}`,
  )
  return { machine, plan, percentiles, failed }
}
