import { type AddressInfo, createServer, type Server } from 'node:net'
import { type Answer, type Gateway, type GatewayOptions, startGateway, upstreamProvider } from '../harness.ts'
import { sharedResources } from '../shared-resources.ts'
import type { Place } from './fault.ts'
import { createPatientClock, type PatientClock, REQUEST_MS } from './patient-clock.ts'
import { completion, DONE, finish, reply, stream, word } from './plays.ts'
import { type Play, type RawUpstream, startRawUpstream } from './raw-upstream.ts'
import { type AnswerContent, SURFACES, type SurfaceName } from './surfaces.ts'
import { type Wire, watchWire } from './wire.ts'

/** Maximum length of compared answers. Longer texts would count as memory of the daemon. */
const KEPT_CHARACTERS = 2_000

/** The way of requesting an answer. A `held` answer is streamed, but only after it is complete. */
export type Mode = 'streamed' | 'held' | 'whole'

/** The result of one request as its client received it. Texts are cut to KEPT_CHARACTERS. */
export type Seen = AnswerContent & {
  status: number
  /** Duration on the fake clock, which advances only while the request waits. */
  ms: number
  requestId: string
  retryAfter: string | undefined
  leaksDetail: boolean
}

/** The timeout of each model for its answer. Its first token must arrive within half of that. */
export const TIMEOUT_MS = REQUEST_MS

type Timed = { answer: Answer; ms: number }

export type Stage = {
  gateway: Gateway
  raw: RawUpstream
  clock: PatientClock
  /**
   * Sends a request to these models in order. One request at a time, because time stands still while a request runs.
   */
  ask(models: readonly string[], mode: Mode, surface?: SurfaceName): Promise<Seen>
  /** Sends this body as one request, and returns the duration on the fake clock. */
  send(surface: SurfaceName, body: object): Promise<Timed>
  /** Resolves when the gateway has closed all connections to the upstream. */
  allClosed(): Promise<void>
  close(): Promise<void>
}

/** Opens the raw upstream, addresses with other faults, and a gateway with all of them as providers. */
export async function openStage(options: GatewayOptions = {}, clock = createPatientClock()): Promise<Stage> {
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
    // A keep-alive would send the status before the fault happens.
    requestLimits: { keepAliveMs: 0 },
    ...options,
  })
  sharedResources.add(gateway)
  const deps = { gateway, clock, raw, wire }
  return {
    gateway,
    raw,
    clock,
    ask: (models, mode, surface = 'classic') => ask(deps, surface, { models, mode }),
    send: (surface, body) => send(deps, surface, body),
    async allClosed() {
      clock.advance(MINUTE_MS)
      await raw.allClosed()
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

/** The answer of a model without a fault. */
export const goodPlay = (mode: Mode): Play => (mode === 'whole' ? GOOD_REPLY : GOOD_STREAM)

const MINUTE_MS = 60_000

/** The name of a model at the raw upstream. */
export const nameOf = (modelId: string) => modelId.slice(modelId.indexOf('/') + 1)

type Deps = Pick<Stage, 'gateway' | 'raw' | 'clock'> & { wire: Wire }

async function send({ gateway, clock, raw, wire }: Deps, surface: SurfaceName, body: object): Promise<Timed> {
  const gatewayPort = Number(new URL(gateway.url).port)
  const isQuiet = () => {
    const open = [...wire.open()]
    return !raw.hasOrphan(open) && open.every((one) => one.remotePort === gatewayPort || raw.isQuiet(one))
  }
  // The timers of the previous request's upstream end with its connection. They must not advance this request.
  while (raw.hasOrphan([...wire.open()])) await new Promise((resolve) => setImmediate(resolve))
  const startedMs = clock.monotonic()
  const answer = await clock.during(gateway.call('POST', SURFACES[surface].path, body), isQuiet)
  return { answer, ms: clock.monotonic() - startedMs }
}

async function ask(
  deps: Deps,
  surface: SurfaceName,
  { models, mode }: { models: readonly string[]; mode: Mode },
): Promise<Seen> {
  const { toBody, readStream, readBody } = SURFACES[surface]
  const body = toBody({
    stream: mode !== 'whole',
    models: models.map((model) => ({ model, timeout_ms: TIMEOUT_MS, first_token_timeout_ms: TIMEOUT_MS / 2 })),
    ...(mode === 'held' && { redundancy: { commit: 'complete' } }),
  })
  const { answer, ms } = await send(deps, surface, body)
  // Ends background work of the daemon, and starts the next minute of the key's rate limit.
  deps.clock.advance(MINUTE_MS)
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

/** A copy, because a slice would keep the whole text in memory. */
const kept = (text: string) => Buffer.from(text.slice(0, KEPT_CHARACTERS)).toString()

async function portOf(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}
