// The load of the kill tests: chats of every kind, with and without an Idempotency-Key.
import { hash, randomUUID } from 'node:crypto'
import { type Agent, request } from 'undici'
import type { EventType } from '../../src/shared/wire/events.ts'
import { chatJson, chatStream, replyJson, replyRaw, type Script } from '../upstream.ts'

const usage = { prompt_tokens: 5, completion_tokens: 3 }
const [BAD, GOOD] = ['test/bad', 'test/good']
const FAILOVER = { model: BAD, fallback_models: [GOOD] }

/** A kind of request, with everything that it must leave in the store. */
export type Kind = {
  name: string
  /** Contains `text`, which differs for each request, so that its receipt is found by the hash of its body. */
  body(text: string): object
  status: 200 | 403
  event?: EventType
  /** Number of incidents. */
  incidents: 0 | 1
}

/** The rule that rejects the requests of the kind `blocked`. */
export const BLOCKING_RULE = {
  ...{ name: 'Project numbers', kind: 'dlp', detector: 'regex', pattern: 'PRJ-[0-9]{4}', action: 'block' },
  ...{ severity: 'high', direction: 'input' },
}

const ANSWERED: Omit<Kind, 'name' | 'body'> = { status: 200, incidents: 0 }

export const KINDS: readonly Kind[] = [
  { ...ANSWERED, name: 'answer', body: (prompt) => ({ model: GOOD, prompt }) },
  { ...ANSWERED, name: 'stream', body: (prompt) => ({ model: GOOD, prompt, stream: true }) },
  { ...ANSWERED, name: 'failover', body: (prompt) => ({ ...FAILOVER, prompt }), event: 'api:model_failover' },
  {
    ...ANSWERED,
    name: 'failover of a stream',
    body: (prompt) => ({ ...FAILOVER, prompt, stream: true }),
    event: 'api:model_failover',
  },
  {
    name: 'finding',
    status: 200,
    incidents: 1,
    event: 'pii:incident',
    body: (text) => ({ model: GOOD, prompt: `Write to ada.lovelace@analytical.org, ${text}` }),
  },
  {
    name: 'blocked',
    status: 403,
    incidents: 1,
    event: 'dlp:incident',
    body: (text) => ({ model: GOOD, prompt: `About PRJ-1234, ${text}` }),
  },
  {
    name: 'rejected',
    status: 403,
    incidents: 0,
    body: (prompt) => ({ model: GOOD, prompt, index: 'nowhere' }),
  },
]

/** One request, which a client sends once, or several times if it has an idempotency key. */
export type Sent = { kind: Kind; body: string; bodySha256: string; idempotencyKey: string | undefined }
export type Received = { status: number; isReplay: boolean; text: string }
/** A request with its complete response. */
export type Acknowledged = Sent & Received

/** Every second round of all kinds has idempotency keys. */
export function nextRequest(turn: number): Sent {
  const kind = KINDS[turn % KINDS.length] as Kind
  const body = JSON.stringify({ index: 'Zero-Knowledge', ...kind.body(`request ${turn}`) })
  const isKeyed = Math.floor(turn / KINDS.length) % 2 === 0
  return {
    ...{ kind, body, bodySha256: hash('sha256', body, 'hex') },
    idempotencyKey: isKeyed ? randomUUID() : undefined,
  }
}

/** The upstream of this load: one model answers, the other fails. Calls `answered` after each response. */
export function answerLoad(answered: () => void): Script {
  const stream = replyRaw(chatStream(['a', 'b'], { usage }))
  const whole = replyJson(chatJson('ab', { usage }))
  const bad = replyJson({ error: { message: 'down' } }, { status: 500 })
  return async (exchange) => {
    const { model, stream: isStreamed } = exchange.request.body as { model: string; stream?: boolean }
    await (model === 'bad' ? bad : isStreamed ? stream : whole)(exchange)
    answered()
  }
}

/** Sends one request of the load. Throws unless the response is complete and has the expected status. */
export async function send(url: string, key: string, agent: Agent, sent: Sent): Promise<Received> {
  const { idempotencyKey, body, kind } = sent
  const response = await request(`${url}/api/external/chat/completions`, {
    method: 'POST',
    dispatcher: agent,
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      ...(idempotencyKey && { 'idempotency-key': idempotencyKey }),
    },
    body,
  })
  const text = await response.body.text()
  if (response.statusCode !== kind.status) throw new Error(`${kind.name}: status ${response.statusCode}: ${text}`)
  const isStream = String(response.headers['content-type']).startsWith('text/event-stream')
  if (isStream && !text.endsWith('data: [DONE]\n\n')) throw new Error(`${kind.name}: the answer broke off: ${text}`)
  return { status: response.statusCode, isReplay: response.headers['idempotent-replayed'] === 'true', text }
}
