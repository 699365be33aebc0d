import { type AddressInfo, createServer, type Server } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { UsageRecordRow } from '../../src/daemon/db/tables.ts'
import type { FailoverAttempt } from '../../src/shared/wire/chat.ts'
import { type Answer, type Gateway, startGateway, textOf, toFrames, upstreamProvider } from '../harness.ts'
import { sharedResources } from '../shared-resources.ts'
import { contentFaults } from './content-faults.ts'
import type { Fault, Place } from './fault.ts'
import { outcomeOf, type Run, type Seen } from './outcome.ts'
import { completion, DONE, finish, json, reply, stream, word } from './plays.ts'
import { type RawUpstream, startRawUpstream } from './raw-upstream.ts'
import { statusFaults } from './status-faults.ts'
import { transportFaults } from './transport-faults.ts'

const FAULTS: readonly Fault[] = [...transportFaults, ...statusFaults, ...contentFaults]
const TIMEOUT_MS = 1_000
/** Beyond the time of its models. */
const GRACE_MS = 250
/** For what moves much data: it must end by its size, on a slow machine too. */
const HEAVY_TIMEOUT_MS = 20_000
const AT_ONCE = 12
const MEBIBYTE = 1_048_576
/** In which the contents of an answer are compared; what is longer would count as memory that the daemon keeps. */
const KEPT_CHARACTERS = 2_000

const RUNS: readonly Run[] = FAULTS.flatMap((fault, at) =>
  (['streamed', 'whole'] as const).flatMap((mode) => {
    const { [mode]: played } = fault
    if (!played) return []
    return (['first of two', 'last of two', 'only model'] as const).map((position): Run => {
      const id = `${at}-${mode}-${position.split(' ')[0]}`
      const faulty = `${fault.place ?? 'raw'}/${id}`
      const models = {
        'first of two': [faulty, `raw/${id}-good`],
        'last of two': [`raw/${id}-down`, faulty],
        'only model': [faulty],
      }
      const title = `${fault.name}, ${mode}, ${position}`
      return { ...played, id, title, fault, streamed: mode === 'streamed', position, models: models[position], faulty }
    })
  }),
)

const seen = new Map<string, Seen>()
const bills = new Map<string, UsageRecordRow[]>()
const GOOD_STREAM = stream([word('good'), finish('stop'), DONE])
const GOOD_REPLY = reply(200, completion('good'))

let gateway: Gateway
let raw: RawUpstream
let slammer: Server
let grownBytes: number

beforeAll(async () => {
  raw = await startRawUpstream()
  slammer = createServer((socket) => void socket.on('error', () => {}).resetAndDestroy())
  const slammed = await portOf(slammer)
  const nobody = createServer()
  const refused = await portOf(nobody)
  await new Promise((resolve) => nobody.close(resolve))
  const at = (address: string) => `http://${address}/v1`
  const places: Record<Place, string> = {
    raw: at(`127.0.0.1:${raw.port}`),
    refused: at(`127.0.0.1:${refused}`),
    'unknown-host': at('nothing.invalid'),
    tls: `https://127.0.0.1:${raw.port}/v1`,
    slammed: at(`127.0.0.1:${slammed}`),
  }
  gateway = await startGateway({
    providers: Object.entries(places).map(([name, url]) => upstreamProvider(name, url)),
    concurrency: { perKey: 0, waitingPerKey: 0, perProvider: 0 },
  })
  sharedResources.add(gateway)
  for (const run of RUNS) arrange(run)

  for (const streamed of [true, false]) await warmUp(streamed)
  const light = RUNS.filter(({ fault }) => !fault.heavy)
  // The first half fills what is meant to stay: caches, compiled code, connections.
  await runAll(light.slice(0, light.length / 2), AT_ONCE)
  const before = await memoryInUse()
  await runAll(light.slice(light.length / 2), AT_ONCE)
  await runAll(
    RUNS.filter(({ fault }) => fault.heavy),
    1,
  )
  // Connections that may be used again have their time; one that is left beyond it would be waited for in vain.
  await raw.deserted()
  grownBytes = (await memoryInUse()) - before
  for (const row of await gateway.usage()) bills.set(row.request_id, [...(bills.get(row.request_id) ?? []), row])
}, 60_000)

afterAll(async () => {
  sharedResources.delete(gateway)
  await gateway.close()
  await raw.close()
  await new Promise((resolve) => slammer.close(resolve))
})

describe.each(RUNS)('$title', (run) => {
  const outcome = outcomeOf(run)

  test('ends as it is documented, in its time, and is billed to the model that served', () => {
    const answer = seenOf(run)
    outcome.check(answer)
    expect(answer.ms).toBeLessThanOrEqual(run.models.length * limitOf(run) + GRACE_MS)
    expect(answer.leaksDetail).toBe(false)
    expect(run.models.map((model) => raw.asked.get(nameOf(model)) ?? 0)).toEqual(outcome.asked)
    const rows = bills.get(answer.requestId) ?? []
    expect(rows.map((row) => ({ model: row.served_model, outcome: row.outcome }))).toEqual(outcome.billed)
    for (const row of rows) {
      expect(row.input_tokens).toBeGreaterThan(0)
      expect(row.output_tokens).toBeGreaterThanOrEqual(0)
    }
  })
})

test('there are more kinds of fault than sixty', () => {
  expect(new Set(FAULTS.map(({ name }) => name)).size).toBe(FAULTS.length)
  expect(FAULTS.length).toBeGreaterThan(60)
})

test('the daemon answers after all of them as before', async () => {
  expect((await gateway.call('GET', '/readyz')).status).toBe(200)
  await warmUp(true)
  await warmUp(false)
})

test('the daemon keeps no connection to the upstream, and at most 8 MiB of all that was sent to it', () => {
  expect(grownBytes).toBeLessThanOrEqual(8 * MEBIBYTE)
})

/** Lets the upstream answer for the models of a run. */
function arrange({ faulty, play, models, streamed }: Run): void {
  raw.plays.set(nameOf(faulty), play)
  for (const model of models) {
    if (model === faulty) continue
    const isDown = model.endsWith('-down')
    raw.plays.set(nameOf(model), isDown ? json({ error: {} }, 503) : streamed ? GOOD_STREAM : GOOD_REPLY)
  }
}

async function warmUp(streamed: boolean): Promise<void> {
  raw.plays.set('well', streamed ? GOOD_STREAM : GOOD_REPLY)
  const answer = await ask(['raw/well'], streamed)
  expect([answer.status, answer.text]).toEqual([200, 'good'])
}

async function runAll(runs: readonly Run[], atOnce: number): Promise<void> {
  const queue = [...runs]
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      for (let run = queue.shift(); run; run = queue.shift()) {
        seen.set(run.id, await ask(run.models, run.streamed, limitOf(run)))
        // What the test itself keeps is no memory of the daemon.
        for (const model of run.models) raw.plays.delete(nameOf(model))
        gateway.log.length = 0
      }
    }),
  )
}

async function ask(models: readonly string[], streamed: boolean, timeoutMs = TIMEOUT_MS): Promise<Seen> {
  const body = {
    prompt: 'hi',
    index: 'Zero-Knowledge',
    stream: streamed,
    models: models.map((model) => ({ model, timeout_ms: timeoutMs, first_token_timeout_ms: timeoutMs / 2 })),
  }
  const startedMs = performance.now()
  const answer = await gateway.call('POST', '/api/external/chat/completions', body)
  const ms = performance.now() - startedMs
  const isStream = String(answer.headers['content-type']).startsWith('text/event-stream')
  return {
    status: answer.status,
    ms,
    requestId: String(answer.headers['x-request-id']),
    retryAfter: answer.headers['retry-after'] as string | undefined,
    leaksDetail: answer.text.includes('secret detail'),
    ...(isStream ? ofStream(toFrames(answer.text)) : ofBody(answer.body)),
  }
}

type Said = Pick<Seen, 'text' | 'finish' | 'done' | 'error' | 'servedModel' | 'failed'>

function ofStream({ frames, done }: ReturnType<typeof toFrames>): Said {
  const said: Said = {
    text: kept(textOf(frames)),
    finish: undefined,
    done,
    error: undefined,
    servedModel: undefined,
    failed: [],
  }
  for (const frame of frames) {
    if (frame.type === 'metadata') {
      said.servedModel = frame.data.metadata.served_model
      said.failed = failedOf(frame.data.metadata.failover?.attempts)
    }
    if (frame.type === 'chunk') said.finish = frame.data.choices[0]?.finish_reason ?? said.finish
    if (frame.type === 'error') said.error = frame.data
  }
  return said
}

function ofBody(body: Answer['body']): Said {
  const [choice] = body.choices ?? []
  return {
    text: kept(choice?.message.content ?? ''),
    finish: choice?.finish_reason,
    done: body.success,
    error: body.success ? undefined : body,
    servedModel: body.metadata?.served_model,
    failed: failedOf(body.attempts ?? body.metadata?.failover?.attempts),
  }
}

const failedOf = (attempts: readonly FailoverAttempt[] = []) =>
  attempts.filter(({ status }) => status === 'failed').map(({ model, reason }) => [model, reason])

/** A copy: a slice would keep the whole text alive. */
const kept = (text: string) => Buffer.from(text.slice(0, KEPT_CHARACTERS)).toString()

function seenOf({ id, title }: Run): Seen {
  const answer = seen.get(id)
  if (!answer) throw new Error(`${title} has not run`)
  return answer
}

const limitOf = ({ fault }: Run) => (fault.heavy ? HEAVY_TIMEOUT_MS : TIMEOUT_MS)

const nameOf = (modelId: string) => modelId.slice(modelId.indexOf('/') + 1)

async function portOf(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

/**
 * What is in use after a collection, in the heap and outside of it; bytes. What one collection finds waiting to be finalised,
 * only a later one can take away, and sockets that were closed let go of their buffers a few turns afterwards.
 */
async function memoryInUse(): Promise<number> {
  setFlagsFromString('--expose-gc')
  const gc = runInNewContext('gc')
  let least = Number.POSITIVE_INFINITY
  for (let round = 0; round < 10; round++) {
    await new Promise(setImmediate)
    gc()
    const { heapUsed, arrayBuffers } = process.memoryUsage()
    least = Math.min(least, heapUsed + arrayBuffers)
  }
  return least
}
