import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Agent, request } from 'undici'
import { expect, onTestFinished, test } from 'vitest'
import { IDEMPOTENCY_LEASE_MS, IDEMPOTENCY_POLL_MS } from '../../src/daemon/gateway/governed/claims.ts'
import { openDatabase } from '../../src/daemon/platform/db/database.ts'
import type { Db } from '../../src/daemon/platform/db/db.ts'
import { newApiKey } from '../../src/shared/ids.ts'
import { billsOf } from '../bills.ts'
import { deferred } from '../deferred.ts'
import { postgresEngine } from '../engines.ts'
import { createFakeClock } from '../fake-clock.ts'
import { startGateway } from '../harness.ts'
import { chatJson, chatStream, type Exchange, replyJson, replyRaw, startUpstream } from '../upstream.ts'
import { advanceUntil, watched } from '../watched-clock.ts'
import { runDaemon } from './daemon-process.ts'

const CALLERS = 100
const usage = { prompt_tokens: 5, completion_tokens: 3 }

/** Moments of the kill: before any output, or after the first callers have received answers. */
const MOMENTS = ['while the provider thinks', 'when the first callers have their answers'] as const

test.each(MOMENTS)(
  'kill -9 during 100 identical requests, %s: one bill and one answer, however often they repeat',
  async (moment) => {
    const home = await newFolder()
    const upstream = await startUpstream()
    const args = await daemonArguments(home, upstream.url)
    const key = newApiKey()
    const start = () => runDaemon(args, { env: { AIGW_BOOTSTRAP_KEY: key }, home })
    const thinking = deferred()
    upstream.fallback((exchange) => thinking.promise.then(() => answerWell(exchange)))

    const daemon = start()
    const crowds = startCrowds(await daemon.url(), key)
    for (const _ of crowds) await upstream.nextRequest()
    if (moment === 'while the provider thinks') await daemon.end('SIGKILL')
    thinking.resolve()
    if (moment === 'when the first callers have their answers') {
      await Promise.all(crowds.map(({ first }) => first))
      await daemon.end('SIGKILL')
    }
    const before = await answersOf(crowds)
    const isAnswered = before.map((texts) => texts.some((text) => text !== undefined))
    expect(isAnswered).toEqual(crowds.map(() => moment === 'when the first callers have their answers'))

    const next = start()
    const after = await answersOf(startCrowds(await next.url(), key))
    expectOneAnswerEach(before, after)
    expect(upstream.requests).toHaveLength(crowds.length * (moment === 'while the provider thinks' ? 2 : 1))
    await next.end('SIGTERM')
    const db = await openDatabase({ kind: 'sqlite', dataDir: join(home, 'data') })
    await expectOneBillEach(db, after).finally(() => db.destroy())
    await upstream.close()
  },
)

test('kill -9 of one of two daemons on PostgreSQL midway: the other answers all, and there is one bill', async () => {
  const clock = watched(createFakeClock(Date.now()))
  const survivor = await startGateway({ engine: postgresEngine, clock })
  const { upstream, adminKey, config } = survivor
  const home = await newFolder()
  const args = await daemonArguments(home, upstream.url)
  const masterKeyFile = join(home, 'shared.key')
  await writeFile(masterKeyFile, config.masterKey ?? '', { mode: 0o600 })
  const env = {
    AIGW_BOOTSTRAP_KEY: adminKey,
    AIGW_DATABASE_URL: config.database.kind === 'postgres' ? config.database.url : '',
    AIGW_MASTER_KEY_FILE: masterKeyFile,
  }
  const start = () => runDaemon(args, { env, home })
  const thinking = deferred()
  upstream.fallback((exchange) => thinking.promise.then(() => answerWell(exchange)))

  const killed = start()
  const lost = startCrowds(await killed.url(), adminKey)
  for (const _ of lost) await upstream.nextRequest()
  const isWaiting = clock.waits(IDEMPOTENCY_POLL_MS)
  const waiting = startCrowds(survivor.url, adminKey)
  await isWaiting
  await killed.end('SIGKILL')
  expect(new Set((await answersOf(lost)).flat())).toEqual(new Set([undefined]))
  // The surviving daemon cannot know that the other was killed before its lease expires.
  const hasLooked = clock.waits(IDEMPOTENCY_POLL_MS)
  clock.advance(IDEMPOTENCY_POLL_MS)
  await hasLooked
  expect(upstream.requests).toHaveLength(lost.length)
  clock.advance(IDEMPOTENCY_LEASE_MS)
  for (const _ of waiting) await advanceUntil(upstream.nextRequest(), clock, IDEMPOTENCY_POLL_MS)
  thinking.resolve()
  const told = await answersOf(waiting)

  const next = start()
  const after = await answersOf(startCrowds(await next.url(), adminKey))
  expectOneAnswerEach(told, after)
  await next.end('SIGTERM')
  expect(upstream.requests).toHaveLength(2 * lost.length)
  await expectOneBillEach(survivor.app.db, told)
})

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'aigw-idempotency-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  return folder
}

async function daemonArguments(home: string, upstreamUrl: string): Promise<string[]> {
  const config = join(home, 'aigw.yaml')
  await writeFile(config, `providers:\n  test:\n    kind: openai\n    base_url: ${upstreamUrl}\n    api_key: sk-x\n`)
  return ['--listen', '127.0.0.1:0', '--config', config, '--data-dir', join(home, 'data')]
}

function answerWell(exchange: Exchange): void | Promise<void> {
  const isStreamed = (exchange.request.body as { stream?: boolean }).stream === true
  return (isStreamed ? replyRaw(chatStream(['a', 'b'], { usage })) : replyJson(chatJson('ab', { usage })))(exchange)
}

type Crowd = { first: Promise<string>; answers: Promise<(string | undefined)[]> }

/** Two groups of concurrent callers, one for a whole answer and one for a stream, each with its own key. */
const startCrowds = (url: string, key: string): Crowd[] => [false, true].map((stream) => startCrowd(url, key, stream))

const answersOf = (crowds: readonly Crowd[]) => Promise.all(crowds.map(({ answers }) => answers))

/** Sends the same request concurrently. Returns whole answers, and undefined for broken ones. */
function startCrowd(url: string, key: string, stream: boolean): Crowd {
  const agent = new Agent()
  const first = deferred<string>()
  const one = async () => {
    const response = await request(`${url}/api/external/chat/completions`, {
      method: 'POST',
      dispatcher: agent,
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        'idempotency-key': stream ? 'streamed' : 'whole',
      },
      body: JSON.stringify({ prompt: 'hi', index: 'Zero-Knowledge', model: 'test/any', stream }),
    })
    const text = await response.body.text()
    expect(response.statusCode, text).toBe(200)
    if (stream && !text.endsWith('data: [DONE]\n\n')) return undefined
    first.resolve(text)
    return text
  }
  const answers = Promise.all(Array.from({ length: CALLERS }, () => one().catch(brokenOff)))
  return { first: first.promise, answers: answers.finally(() => agent.destroy()) }
}

/** A caller may miss its answer only if its connection was closed. */
function brokenOff(error: Error & { code?: string }): undefined {
  if (!/^(UND_ERR_SOCKET|ECONNRESET|ECONNREFUSED|EPIPE)$/.test(error.code ?? '')) throw error
}

type Told = readonly (readonly (string | undefined)[])[]

/** Every caller receives an answer in the end, and answers from before the kill stay the same. */
function expectOneAnswerEach(before: Told, after: Told): void {
  for (const [at, texts] of after.entries()) {
    expect(texts).not.toContain(undefined)
    expect(new Set([...(before[at] ?? []), ...texts].filter((text) => text !== undefined)).size).toBe(1)
  }
}

async function expectOneBillEach(db: Db, told: Told): Promise<void> {
  const bills = (await billsOf(db)).map(({ outcome }) => ({ outcome }))
  expect(bills).toEqual(told.map(() => ({ outcome: 'complete' })))
  const stored = await db.selectFrom('idempotency_results').select(['body', 'lease_until']).execute()
  expect(new Set(stored)).toEqual(new Set(told.map(([body]) => ({ body, lease_until: null }))))
}
