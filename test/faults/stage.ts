import { type AddressInfo, createServer, type Server } from 'node:net'
import { type Gateway, type GatewayOptions, startGateway, upstreamProvider } from '../harness.ts'
import { sharedResources } from '../shared-resources.ts'
import { type AttentiveClock, startAttentiveClock } from './attentive-clock.ts'
import type { Place } from './fault.ts'
import { completion, DONE, finish, reply, stream, word } from './plays.ts'
import { type Play, type RawUpstream, startRawUpstream } from './raw-upstream.ts'
import { type Said, SURFACES, type SurfaceName } from './surfaces.ts'

/** In which the contents of an answer are compared; what is longer would count as memory that the daemon keeps. */
const KEPT_CHARACTERS = 2_000

/** How an answer is asked for: `held` is streamed, but only once it is known to be whole. */
export type Mode = 'streamed' | 'held' | 'whole'

/** What came of one request, as its client saw it; of the text, as far as it is kept. */
export type Seen = Said & {
  status: number
  /** In which the process could run. */
  ms: number
  requestId: string
  retryAfter: string | undefined
  leaksDetail: boolean
}

export type Stage = {
  gateway: Gateway
  raw: RawUpstream
  /** Asks these models in their order, each with `timeoutMs` for its answer and half of that for its first token. */
  ask(models: readonly string[], mode: Mode, timeoutMs: number, surface?: SurfaceName): Promise<Seen>
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
    ask: (models, mode, timeoutMs, surface = 'classic') =>
      ask({ gateway, clock }, surface, { models, mode, timeoutMs }),
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
  surface: SurfaceName,
  { models, mode, timeoutMs }: { models: readonly string[]; mode: Mode; timeoutMs: number },
): Promise<Seen> {
  const { path, toBody, readStream, readBody } = SURFACES[surface]
  const body = toBody({
    stream: mode !== 'whole',
    models: models.map((model) => ({ model, timeout_ms: timeoutMs, first_token_timeout_ms: timeoutMs / 2 })),
    ...(mode === 'held' && { redundancy: { commit: 'complete' } }),
  })
  const startedMs = clock.nowMs()
  const answer = await gateway.call('POST', path, body)
  const ms = clock.nowMs() - startedMs
  const isStream = String(answer.headers['content-type']).startsWith('text/event-stream')
  const said = isStream ? readStream(answer.text) : readBody(answer.body)
  return {
    ...said,
    text: kept(said.text),
    status: answer.status,
    ms,
    requestId: String(answer.headers['x-request-id']),
    retryAfter: answer.headers['retry-after'] as string | undefined,
    leaksDetail: answer.text.includes('secret detail'),
  }
}

/** A copy: a slice would keep the whole text alive. */
const kept = (text: string) => Buffer.from(text.slice(0, KEPT_CHARACTERS)).toString()

async function portOf(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}
