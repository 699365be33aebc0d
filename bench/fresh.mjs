// Measures the CPU of a request under each policy with texts that never repeat, so that no cache of scanned texts helps:
// 1.8 KB of prompt and 0.6 KB of answer. One gateway per policy; all of them are measured at the same time, so that other
// programs of the machine affect them alike. Then each gateway answers requests one at a time, for the time that a user
// waits for the guards, and for their memory.
// Run: npm run bench -- fresh
import http from 'node:http'
import path from 'node:path'
import { BenchError, buildProject } from './build.mjs'
import { spawnDaemon } from './candidates.mjs'
import { CPU, describeMachine, processCpuUs, processMemoryMib } from './machine.mjs'
import { createProse } from './prose.mjs'
import { withSession } from './session.mjs'
import { figure, machineLine, median, table } from './tables.mjs'

/** `public` runs no guard. `internal` is the default. */
const POLICIES = ['public', 'internal', 'internal-strict', 'confidential']
const BASE = 'internal'
const PROMPT_CHARS = 1_800
const ANSWER_CHARS = 600
const CONNECTIONS = 8
const FULL = { rounds: 8, requests: 400, warmUpRounds: 4, alone: 1_000 }
const QUICK = { rounds: 4, requests: 200, warmUpRounds: 3, alone: 400 }
/** A guard that rejects texts does less work, so the figures would be wrong. */
const MOST_REJECTED = 0.02

function startUpstream(prose) {
  const server = http.createServer((request, response) => {
    request.resume()
    request.on('end', () => {
      const message = { role: 'assistant', content: prose(ANSWER_CHARS) }
      const usage = { prompt_tokens: 321, completion_tokens: 123, total_tokens: 444 }
      const choices = [{ index: 0, message, finish_reason: 'stop' }]
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(
        JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion', created: 1, model: 'm', choices, usage }),
      )
    })
  })
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve({ server, url: `http://127.0.0.1:${server.address().port}` }))
  })
}

function post({ url, headers, agent }, body) {
  return new Promise((resolve, reject) => {
    const request = http.request(url, { method: 'POST', agent, headers }, (response) => {
      response.resume()
      response.on('end', () => resolve(response.statusCode))
    })
    request.on('error', reject)
    request.end(JSON.stringify(body))
  })
}

/** Sends `count` requests with new texts. Resolves to the number of rejected requests. */
async function sendAll(target, prose, count) {
  let left = count
  let rejected = 0
  const sendSome = async () => {
    while (left-- > 0) {
      const messages = [{ role: 'user', content: prose(PROMPT_CHARS) }]
      const status = await post(target, { model: 'mock/mock-model', messages, max_tokens: 256 })
      if (status === 403) rejected++
      else if (status !== 200) throw new BenchError(`a request was answered with ${status}`)
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, sendSome))
  return rejected
}

/**
 * Sends `count` requests with new texts to each target, one at a time and in turns, so that slow moments of the machine
 * affect all alike. Resolves to the times of each policy in milliseconds, in ascending order.
 */
async function waitEach(targets, prose, count) {
  const times = new Map(targets.map(({ policy }) => [policy, []]))
  for (let at = 0; at < count; at++) {
    for (const target of targets) {
      const messages = [{ role: 'user', content: prose(PROMPT_CHARS) }]
      const beganAt = performance.now()
      await post(target, { model: 'mock/mock-model', messages, max_tokens: 256 })
      times.get(target.policy).push(performance.now() - beganAt)
    }
  }
  for (const list of times.values()) list.sort((one, other) => one - other)
  return times
}

const quantile = (sorted, share) => sorted[Math.floor(share * (sorted.length - 1))]

/** Starts a gateway whose active policy is `policy`. */
async function startUnder(policy, { session, mockUrl, agent }) {
  const dir = path.join(session.dir, policy)
  const { child, key } = spawnDaemon(session, { dir, mockUrl, cpu: CPU.measured })
  const { url } = await child.listening
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const activate = `${url}/api/external/smltp-policies/${policy}/activate`
  const status = await post({ url: activate, headers, agent }, {})
  if (status !== 200) throw new BenchError(`${policy} was not activated: ${status}`)
  return { policy, pid: child.pid, url: `${url}/v1/chat/completions`, headers, agent }
}

export async function benchFresh({ rounds, quick, noBuild, dataDir }) {
  if (!noBuild) buildProject()
  const plan = { ...(quick ? QUICK : FULL), ...(rounds && { rounds }) }
  const machine = describeMachine(dataDir)
  const runs = []
  const alone = []
  await withSession({ dataDir }, async (session) => {
    const prose = createProse()
    const upstream = await startUpstream(prose)
    const agent = new http.Agent({ keepAlive: true, maxSockets: CONNECTIONS })
    try {
      const targets = await Promise.all(
        POLICIES.map((policy) => startUnder(policy, { session, mockUrl: upstream.url, agent })),
      )
      const measure = async ({ policy, pid, ...target }) => {
        const before = processCpuUs(pid)
        const rejected = await sendAll(target, prose, plan.requests)
        if (rejected > MOST_REJECTED * plan.requests)
          throw new BenchError(`${policy} rejected ${rejected} of ${plan.requests} harmless prompts`)
        return { policy, rejected, cpuUs: (processCpuUs(pid) - before) / plan.requests }
      }
      const measureAll = () => Promise.all(targets.map(measure))
      for (let round = 0; round < plan.warmUpRounds; round++) await measureAll()
      for (let round = 0; round < plan.rounds; round++) {
        for (const run of await measureAll()) {
          console.error(`${round + 1}/${plan.rounds} ${run.policy.padEnd(16)} ${figure(run.cpuUs)} µs`)
          runs.push({ round, ...run })
        }
      }
      const times = await waitEach(targets, prose, plan.alone)
      for (const { policy, pid } of targets) {
        const sorted = times.get(policy)
        alone.push({ policy, p50: quantile(sorted, 0.5), p99: quantile(sorted, 0.99), memory: processMemoryMib(pid) })
      }
    } finally {
      agent.destroy()
      upstream.server.close()
    }
  })
  const cpuOf = (policy) => runs.filter((run) => run.policy === policy).map(({ cpuUs }) => cpuUs)
  const rows = POLICIES.map((policy) => {
    const cpu = cpuOf(policy)
    const ratio = median(cpu.map((us, at) => us / cpuOf(BASE)[at]))
    const rejected = runs.filter((run) => run.policy === policy).reduce((sum, one) => sum + one.rejected, 0)
    return [
      policy,
      figure(median(cpu)),
      figure(Math.min(...cpu)),
      figure(Math.max(...cpu)),
      figure(ratio, 2),
      `${rejected}`,
    ]
  })
  const headings = ['policy', 'CPU µs per request', 'least', 'most', `× ${BASE}`, 'rejected']
  console.log(`${machineLine(machine)}\n\n${table(headings, rows)}`)
  const aloneHeadings = ['policy', 'alone p50 ms', 'p99 ms', 'memory MiB', 'peak']
  const aloneRows = alone.map(({ policy, p50, p99, memory }) => {
    return [policy, figure(p50), figure(p99), figure(memory.now), figure(memory.peak)]
  })
  console.log(`\n${table(aloneHeadings, aloneRows)}`)
  return { machine, plan, runs, alone }
}
