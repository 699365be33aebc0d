import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Agent, request } from 'undici'
import { expect, test } from 'vitest'
import { openDatabase } from '../../src/daemon/db/database.ts'
import { newApiKey } from '../../src/shared/ids.ts'
import { toFrames } from '../harness.ts'
import { chatJson, chatStream, replyJson, replyRaw, startUpstream } from '../upstream.ts'
import { startDaemonProcess } from './daemon-process.ts'

const KILLS = 20
const CLIENTS = 16
const usage = { prompt_tokens: 5, completion_tokens: 3 }

test('kill -9 under load, 20 times: every acknowledged request has exactly one usage row', {
  timeout: 240_000,
}, async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'aigw-kill-'))
  const upstream = await startUpstream()
  const stream = replyRaw(chatStream(['a', 'b'], { usage }))
  const whole = replyJson(chatJson('ab', { usage }))
  upstream.fallback((exchange) => ((exchange.request.body as { stream?: boolean }).stream ? stream : whole)(exchange))
  const config = join(dataDir, 'aigw.yaml')
  await writeFile(config, `providers:\n  test:\n    kind: openai\n    base_url: ${upstream.url}\n    api_key: sk-x\n`)
  const key = newApiKey()
  const acknowledged: string[] = []

  for (let kill = 0; kill < KILLS; kill++) {
    const daemon = await startDaemonProcess(['--config', config, '--data-dir', dataDir], { AIGW_BOOTSTRAP_KEY: key })
    const agent = new Agent()
    const enough = acknowledged.length + 40 + 7 * kill
    let killed: Promise<void> | undefined
    async function client(streamed: boolean): Promise<void> {
      while (!killed) {
        const id = await ask(daemon.url, key, agent, streamed).catch(() => undefined)
        if (id === undefined) continue
        acknowledged.push(id)
        // The kill comes while the other clients are in the middle of their requests.
        if (acknowledged.length === enough) killed = daemon.end('SIGKILL')
      }
    }
    await Promise.all(Array.from({ length: CLIENTS }, (_, at) => client(at % 2 === 0)))
    await killed
    await agent.destroy()
  }

  const db = await openDatabase({ kind: 'sqlite', dataDir })
  const rows = await db
    .selectFrom('usage_records')
    .select(['request_id', 'input_tokens', 'output_tokens', 'outcome'])
    .execute()
  await db.destroy()
  await upstream.close()
  await rm(dataDir, { recursive: true })

  expect(new Set(acknowledged).size).toBe(acknowledged.length)
  const stored = new Map(rows.map((row) => [row.request_id, row]))
  expect(stored.size).toBe(rows.length)
  expect(acknowledged.filter((id) => !stored.has(id))).toEqual([])
  for (const id of acknowledged) {
    expect(stored.get(id)).toMatchObject({ input_tokens: 5, output_tokens: 3, outcome: 'complete' })
  }
})

/** One chat; the request id when the whole answer arrived. */
async function ask(url: string, key: string, agent: Agent, stream: boolean): Promise<string | undefined> {
  const response = await request(`${url}/api/external/chat/completions`, {
    method: 'POST',
    dispatcher: agent,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ prompt: 'hi', index: 'Zero-Knowledge', model: 'test/any', stream }),
  })
  const text = await response.body.text()
  if (response.statusCode !== 200) throw new Error(`status ${response.statusCode}: ${text}`)
  if (!stream) return JSON.parse(text).id
  const { frames, done } = toFrames(text)
  const first = frames[0]
  return done && first?.type === 'metadata' ? first.data.id : undefined
}
