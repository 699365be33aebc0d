import { type AddressInfo, createServer, type Server } from 'node:net'
import { type Gateway, type GatewayOptions, startGateway, upstreamProvider } from '../harness.ts'
import { sharedResources } from '../shared-resources.ts'
import type { Place } from './fault.ts'
import { createPatientClock, type PatientClock, REQUEST_MS } from './patient-clock.ts'
import { completion, DONE, finish, reply, stream, word } from './plays.ts'
import { type Play, type RawUpstream, startRawUpstream } from './raw-upstream.ts'
import { type Said, SURFACES, type SurfaceName } from './surfaces.ts'
import { type Wire, watchWire } from './wire.ts'

/** In which the contents of an answer are compared; what is longer would count as memory that the daemon keeps. */
const KEPT_CHARACTERS = 2_000

/** How an answer is asked for: `held` is streamed, but only once it is known to be whole. */
export type Mode = 'streamed' | 'held' | 'whole'

/** What came of one request, as its client saw it; of the text, as far as it is kept. */
export type Seen = Said & {
  status: number
  /** On the fake clock, which stands still unless the request only waits. */
  ms: number
  requestId: string
  retryAfter: string | undefined
  leaksDetail: boolean
}

/** The time of each model for its answer; half of it is for its first token. */
export const TIMEOUT_MS = REQUEST_MS

export type Stage = {
  gateway: Gateway
  raw: RawUpstream
  /** Asks these models in their order. One request at a time, because time must stand still while a request is worked on. */
  ask(models: readonly string[], mode: Mode, surface?: SurfaceName): Promise<Seen>
  /** Resolves once the gateway has closed all its connections to the upstream. */
  deserted(): Promise<void>
  close(): Promise<void>
}

/** The raw upstream, addresses at which something else is wrong, and a gateway that knows all of them as providers. */
export async function openStage(options: GatewayOptions = {}): Promise<Stage> {
  const clock = createPatientClock()
  const wire = watchWire()
  const raw = await startRawUpstream({ clock })
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
    clock,
    concurrency: { perKey: 0, waitingPerKey: 0, perProvider: 0 },
    ...options,
  })
  sharedResources.add(gateway)
  return {
    gateway,
    raw,
    ask: (models, mode, surface = 'classic') => ask({ gateway, clock, raw, wire }, surface, { models, mode }),
    async deserted() {
      clock.advance(MINUTE_MS)
      await raw.deserted()
    },
    async close() {
      wire.close()
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

const MINUTE_MS = 60_000

/** What the raw upstream knows a model as. */
export const nameOf = (modelId: string) => modelId.slice(modelId.indexOf('/') + 1)

async function ask(
  { gateway, clock, raw, wire }: Pick<Stage, 'gateway' | 'raw'> & { clock: PatientClock; wire: Wire },
  surface: SurfaceName,
  { models, mode }: { models: readonly string[]; mode: Mode },
): Promise<Seen> {
  const gatewayPort = Number(new URL(gateway.url).port)
  const isQuiet = () => [...wire.open()].every((one) => one.remotePort === gatewayPort || raw.isQuiet(one))
  const { path, toBody, readStream, readBody } = SURFACES[surface]
  const body = toBody({
    stream: mode !== 'whole',
    models: models.map((model) => ({ model, timeout_ms: TIMEOUT_MS, first_token_timeout_ms: TIMEOUT_MS / 2 })),
    ...(mode === 'held' && { redundancy: { commit: 'complete' } }),
  })
  const startedMs = clock.monotonic()
  const answer = await clock.during(gateway.call('POST', path, body), isQuiet)
  const ms = clock.monotonic() - startedMs
  // Ends what the daemon left running beside the answer, and starts the next minute of the key's rate limit.
  clock.advance(MINUTE_MS)
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
