import { type AddressInfo, createServer, type Server } from 'node:net'
import type { FailoverAttempt } from '../../src/shared/wire/chat.ts'
import {
  type Answer,
  type Gateway,
  type GatewayOptions,
  startGateway,
  textOf,
  toFrames,
  upstreamProvider,
} from '../harness.ts'
import { sharedResources } from '../shared-resources.ts'
import { type AttentiveClock, startAttentiveClock } from './attentive-clock.ts'
import type { Place } from './fault.ts'
import { completion, DONE, finish, reply, stream, word } from './plays.ts'
import { type Play, type RawUpstream, startRawUpstream } from './raw-upstream.ts'

/** In which the contents of an answer are compared; what is longer would count as memory that the daemon keeps. */
const KEPT_CHARACTERS = 2_000

/** How an answer is asked for: `held` is streamed, but only once it is known to be whole. */
export type Mode = 'streamed' | 'held' | 'whole'

/** What came of one request, as its client saw it. */
export type Seen = {
  status: number
  /** In which the process could run. */
  ms: number
  requestId: string
  retryAfter: string | undefined
  /** What was said, as far as it is kept. */
  text: string
  finish: string | null | undefined
  done: boolean
  /** The error of a body, or of the last frame. */
  error: { error: string } | undefined
  servedModel: string | undefined
  attempts: readonly FailoverAttempt[]
  leaksDetail: boolean
}

export type Stage = {
  gateway: Gateway
  raw: RawUpstream
  /** Asks these models in their order, each with `timeoutMs` for its answer and half of that for its first token. */
  ask(models: readonly string[], mode: Mode, timeoutMs: number): Promise<Seen>
  close(): Promise<void>
}

/** The raw upstream, addresses at which something else is wrong, and a gateway that knows all of them as providers. */
export async function openStage(options: GatewayOptions = {}): Promise<Stage> {
  const raw = await startRawUpstream()
  const slammer = createServer((socket) => void socket.on('error', () => {}).resetAndDestroy())
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
  const gateway = await startGateway({
    providers: Object.entries(places).map(([name, url]) => upstreamProvider(name, url)),
    concurrency: { perKey: 0, waitingPerKey: 0, perProvider: 0 },
    ...options,
  })
  sharedResources.add(gateway)
  const clock = startAttentiveClock()
  return {
    gateway,
    raw,
    ask: (models, mode, timeoutMs) => ask({ gateway, clock }, models, mode, timeoutMs),
    async close() {
      clock.stop()
      sharedResources.delete(gateway)
      await gateway.close()
      await raw.close()
      await new Promise((resolve) => slammer.close(resolve))
    },
  }
}

const GOOD_STREAM = stream([word('good'), finish('stop'), DONE])
const GOOD_REPLY = reply(200, completion('good'))

/** What a model sends that has no fault. */
export const goodPlay = (mode: Mode): Play => (mode === 'whole' ? GOOD_REPLY : GOOD_STREAM)

/** What the raw upstream knows a model as. */
export const nameOf = (modelId: string) => modelId.slice(modelId.indexOf('/') + 1)

async function ask(
  { gateway, clock }: { gateway: Gateway; clock: AttentiveClock },
  models: readonly string[],
  mode: Mode,
  timeoutMs: number,
): Promise<Seen> {
  const body = {
    prompt: 'hi',
    index: 'Zero-Knowledge',
    stream: mode !== 'whole',
    models: models.map((model) => ({ model, timeout_ms: timeoutMs, first_token_timeout_ms: timeoutMs / 2 })),
    ...(mode === 'held' && { redundancy: { commit: 'complete' } }),
  }
  const startedMs = clock.nowMs()
  const answer = await gateway.call('POST', '/api/external/chat/completions', body)
  const ms = clock.nowMs() - startedMs
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

type Said = Pick<Seen, 'text' | 'finish' | 'done' | 'error' | 'servedModel' | 'attempts'>

function ofStream({ frames, done }: ReturnType<typeof toFrames>): Said {
  const said: Said = {
    text: kept(textOf(frames)),
    finish: undefined,
    done,
    error: undefined,
    servedModel: undefined,
    attempts: [],
  }
  for (const frame of frames) {
    if (frame.type === 'metadata') {
      said.servedModel = frame.data.metadata.served_model
      said.attempts = frame.data.metadata.failover?.attempts ?? []
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
    attempts: body.attempts ?? body.metadata?.failover?.attempts ?? [],
  }
}

/** A copy: a slice would keep the whole text alive. */
const kept = (text: string) => Buffer.from(text.slice(0, KEPT_CHARACTERS)).toString()

async function portOf(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}
