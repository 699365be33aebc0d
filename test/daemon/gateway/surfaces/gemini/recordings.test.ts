// Recorded answers of Gemini, sent through the gateway to a client of Gemini's API: nothing may change.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Gateway, startGateway } from '../../../../harness.ts'
import { sharedResources } from '../../../../shared-resources.ts'
import { replyRaw, startUpstream, type Upstream } from '../../../../upstream.ts'
import { fixtures, type Played, playBody, playStream } from '../../../models/providers/google/playback.ts'

type Recording = { id: string; stream: boolean; bytes: Buffer }
type Row = { id: string; api: string; file: string; stream: boolean; status: number }

/** Recordings of the real API. They are not part of the project; without the folder only our own are played. */
const evalDir = process.env.AIGW_EVAL_DIR ?? join(import.meta.dirname, '../../../../../../shared/eval')

function recordings(): Recording[] {
  const manifest = join(evalDir, 'wire/manifest.jsonl')
  if (!existsSync(manifest)) return []
  return readFileSync(manifest, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Row)
    .filter(({ api, status }) => api === 'generateContent' && status === 200)
    .map(({ id, stream, file }) => ({ id, stream, bytes: readFileSync(join(evalDir, file)) }))
}

let upstream: Upstream
let gateway: Gateway

beforeAll(async () => {
  upstream = await startUpstream()
  const provider = {
    name: 'gemini',
    kind: 'google',
    baseUrl: upstream.url,
    apiKey: 'a',
    headers: {},
    models: undefined,
    prices: {},
  } as const
  gateway = await startGateway({ providers: [provider] })
  sharedResources.add(gateway)
})
afterAll(async () => {
  sharedResources.delete(gateway)
  await gateway.close()
  await upstream.close()
})

/** What a client must see again. Synthesised ids, and the number of pieces, may differ. */
function essence(played: Played) {
  if (!('text' in played)) return 'failed'
  const { text, reasoning, toolCalls, outcome, usage } = played
  const signatures = played.signatures.map(({ signature, data }) => signature ?? data?.slice(data.lastIndexOf(':') + 1))
  const calls = toolCalls.map(({ name, arguments: json }) => [name, JSON.parse(json)])
  return { text, reasoning, calls, outcome, signatures: signatures.toSorted(), usage }
}

const own = fixtures().map(({ file, stream, bytes }) => ({ id: file, stream, bytes: Buffer.from(bytes) }))

test.each([...own, ...recordings()])('$id reaches a client unchanged', async ({ stream, bytes }) => {
  const upstreams = essence(stream ? playStream([bytes]) : playBody(bytes))
  upstream.script(replyRaw(bytes, { contentType: stream ? 'text/event-stream' : 'application/json' }))
  const action = stream ? 'streamGenerateContent?alt=sse' : 'generateContent'
  const body = {
    contents: [{ role: 'user', parts: [{ text: 'Hi' }] }],
    generationConfig: { thinkingConfig: { includeThoughts: true } },
  }
  const answer = await gateway.call('POST', `/v1beta/models/gemini/gemini-3-flash:${action}`, body)
  const ours = Buffer.from(answer.text)
  const received = answer.status !== 200 ? 'failed' : essence(stream ? playStream([ours]) : playBody(ours))
  if (upstreams === 'failed') {
    expect(received).toBe('failed')
    expect(answer.text).not.toContain('"STOP"')
    return
  }
  // If the provider sends no counts, the gateway counts.
  const expected = upstreams.usage ? upstreams : { ...upstreams, usage: expect.anything() }
  expect(received).toEqual(expected)
})
