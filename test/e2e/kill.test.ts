import { randomUUID } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Agent, request } from 'undici'
import { expect, test } from 'vitest'
import { openDatabase } from '../../src/daemon/platform/db/database.ts'
import { type LoggedPayload, payloadOf } from '../../src/daemon/records/evidence/entry-payload.ts'
import { newApiKey } from '../../src/shared/ids.ts'
import { billsOf } from '../bills.ts'
import { toFrames } from '../harness.ts'
import { chatJson, chatStream, replyJson, replyRaw, startUpstream } from '../upstream.ts'
import { runDaemon } from './daemon-process.ts'

const KILLS = 20
const CLIENTS = 16
const REPEATS_PER_RESTART = 6
const usage = { prompt_tokens: 5, completion_tokens: 3 }

type Ask = { streamed: boolean; idempotencyKey: string | undefined }
type Answered = Ask & { id: string; text: string }

test('kill -9 under load, 20 times: every acknowledged request has exactly one bill, one receipt in a complete log, and its stored answer', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'aigw-kill-'))
  const upstream = await startUpstream()
  const stream = replyRaw(chatStream(['a', 'b'], { usage }))
  const whole = replyJson(chatJson('ab', { usage }))
  upstream.fallback((exchange) => ((exchange.request.body as { stream?: boolean }).stream ? stream : whole)(exchange))
  const config = join(dataDir, 'aigw.yaml')
  await writeFile(config, `providers:\n  test:\n    kind: openai\n    base_url: ${upstream.url}\n    api_key: sk-x\n`)
  const key = newApiKey()
  const acknowledged: Answered[] = []
  const start = () =>
    runDaemon(['--listen', '127.0.0.1:0', '--config', config, '--data-dir', dataDir], {
      env: { AIGW_BOOTSTRAP_KEY: key },
    })

  for (let kill = 0; kill < KILLS; kill++) {
    const daemon = start()
    const url = await daemon.url()
    const agent = new Agent()
    await expectReplays(url, key, agent, acknowledged)

    const enough = acknowledged.length + 40 + 7 * kill
    let killed: Promise<unknown> | undefined
    async function client(at: number): Promise<void> {
      while (!killed) {
        const asked: Ask = { streamed: at % 2 === 0, idempotencyKey: at % 4 < 2 ? randomUUID() : undefined }
        const answered = await ask(url, key, agent, asked).catch((error: Error) => {
          // Requests may fail only because of the kill.
          if (!killed) throw error
          return undefined
        })
        if (answered) acknowledged.push(answered)
        // The kill comes while other clients have requests in flight.
        if (acknowledged.length >= enough) killed ??= daemon.end('SIGKILL')
      }
    }
    await Promise.all(Array.from({ length: CLIENTS }, (_, at) => client(at)))
    await killed
    await agent.destroy()
  }

  const rows = await usageRows(dataDir)
  const calls = upstream.requests.length
  const last = start()
  const agent = new Agent()
  const url = await last.url()
  await expectReplays(url, key, agent, acknowledged)
  const log = await integrityOf(url, key, agent)
  await agent.destroy()
  expect(await last.end('SIGTERM')).toMatchObject({ code: 0 })
  expect([await usageRows(dataDir), upstream.requests.length]).toEqual([rows, calls])
  const spent = await spendCounters(dataDir)
  const receipts = await receiptsOf(dataDir)
  await upstream.close()
  await rm(dataDir, { recursive: true })

  const ids = acknowledged.map(({ id }) => id)
  expect(new Set(ids).size).toBe(ids.length)
  const stored = new Map(rows.map((row) => [row.request_id, row]))
  expect(stored.size).toBe(rows.length)
  expect(ids.filter((id) => !stored.has(id))).toEqual([])
  for (const id of ids) expect(stored.get(id)).toMatchObject({ input_tokens: 5, output_tokens: 3, outcome: 'complete' })
  expect(rows.length).toBeLessThanOrEqual(calls)
  expect(receipts).toEqual(rows.map(({ request_id }) => ({ request_id, result: 'success' })))
  expect(log).toMatchObject({ chainIntegrity: 'maintained', details: [], treeSize: receipts.length })
  expect(spent).toEqual([{ points: rows.reduce((sum, { points }) => sum + points, 0) }])
})

async function usageRows(dataDir: string) {
  const db = await openDatabase({ kind: 'sqlite', dataDir })
  const bills = await billsOf(db).finally(() => db.destroy())
  return bills
    .map(({ request_id, input_tokens, output_tokens, outcome, points }) => ({
      ...{ request_id, input_tokens, output_tokens },
      ...{ outcome, points },
    }))
    .sort((a, b) => (a.request_id < b.request_id ? -1 : 1))
}

async function spendCounters(dataDir: string) {
  const db = await openDatabase({ kind: 'sqlite', dataDir })
  return db
    .selectFrom('spend_counters')
    .select('points')
    .execute()
    .finally(() => db.destroy())
}

/** The receipts in the request log, by request. */
async function receiptsOf(dataDir: string): Promise<{ request_id: string; result: string }[]> {
  const db = await openDatabase({ kind: 'sqlite', dataDir })
  const entries = await db
    .selectFrom('evidence_entries')
    .selectAll()
    .execute()
    .finally(() => db.destroy())
  const receipts = entries.map((row) => payloadOf(row) as LoggedPayload)
  return receipts
    .map(({ request_id, result }) => ({ request_id, result }))
    .sort((a, b) => (a.request_id < b.request_id ? -1 : 1))
}

/** Verifies every hash and signature of the log through the daemon. */
async function integrityOf(url: string, key: string, agent: Agent): Promise<unknown> {
  const { body } = await request(`${url}/api/external/transparency/chain-integrity`, {
    dispatcher: agent,
    headers: { authorization: `Bearer ${key}` },
  })
  return body.json()
}

/** Repeats the latest requests that had an idempotency key, and expects the same bytes. */
async function expectReplays(url: string, key: string, agent: Agent, acknowledged: readonly Answered[]): Promise<void> {
  const keyed = acknowledged.filter(({ idempotencyKey }) => idempotencyKey !== undefined)
  for (const answered of keyed.slice(-REPEATS_PER_RESTART)) {
    const repeated = await send(url, key, agent, answered)
    expect([repeated.status, repeated.replayed, repeated.text]).toEqual([200, 'true', answered.text])
  }
}

/** Sends one chat. Throws unless the response is a complete 200. */
async function ask(url: string, key: string, agent: Agent, asked: Ask): Promise<Answered> {
  const { status, text } = await send(url, key, agent, asked)
  if (status !== 200) throw new Error(`status ${status}: ${text}`)
  const id = asked.streamed ? idOfStream(text) : JSON.parse(text).id
  if (id === undefined) throw new Error(`the answer broke off: ${text}`)
  return { ...asked, id, text }
}

async function send(url: string, key: string, agent: Agent, { streamed, idempotencyKey }: Ask) {
  const response = await request(`${url}/api/external/chat/completions`, {
    method: 'POST',
    dispatcher: agent,
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      ...(idempotencyKey && { 'idempotency-key': idempotencyKey }),
    },
    body: JSON.stringify({ prompt: 'hi', index: 'Zero-Knowledge', model: 'test/any', stream: streamed }),
  })
  const text = await response.body.text()
  return { status: response.statusCode, replayed: response.headers['idempotent-replayed'], text }
}

function idOfStream(text: string): string | undefined {
  const { frames, done } = toFrames(text)
  const first = frames[0]
  return done && first?.type === 'metadata' ? first.data.id : undefined
}
