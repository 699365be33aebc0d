import { type Dispatcher, request } from 'undici'
import type { Clock } from '../../shared/time.ts'
import type { Log } from '../platform/log.ts'
import type { Provider } from './provider.ts'
import { openAiProvider } from './providers/openai/provider.ts'
import { WELL_KNOWN_PROVIDERS } from './well-known-providers.ts'

/** The maximum time to wait for the response of a model server. */
const LOCAL_PROBE_MS = 300
/** The maximum size of a server's model list. */
const LOCAL_MODELS_BYTES = 1_048_576

/** The default address of a model server on this machine. */
export type LocalServer = { name: string; baseUrl: string }

export type LocalServers = {
  /** The servers that responded to the last `look`, by name. Each server offers the models that it listed. */
  readonly found: ReadonlyMap<string, Provider>
  /** Probes all servers simultaneously, for at most LOCAL_PROBE_MS. Never rejects. */
  look(): Promise<void>
  /** Replaces the names that `look` skips. If `isEnabled` is false, `look` finds no server. */
  configure(configured: readonly string[], isEnabled: boolean): void
  close(): Promise<void>
}

const LOCAL_SERVERS: readonly LocalServer[] = Object.entries(WELL_KNOWN_PROVIDERS).flatMap(
  ([name, { baseUrl, isDiscovered }]) => (isDiscovered && baseUrl !== undefined ? [{ name, baseUrl }] : []),
)

/** Finds model servers on this machine that are not configured. Skips names in `configured`. */
export function createLocalServers(
  configured: readonly string[],
  { clock, log, servers = LOCAL_SERVERS }: { clock: Clock; log: Log; servers?: readonly LocalServer[] },
): LocalServers {
  let wanted = servers.filter(({ name }) => !configured.includes(name))
  // Entries are never removed: a server may be unreachable only temporarily, and its answers in flight must survive.
  const providers = new Map<string, Provider>()
  const found = new Map<string, Provider>()

  async function lookFor(server: LocalServer): Promise<void> {
    const { name, baseUrl } = server
    const models = await askForModels(baseUrl, clock)
    // A reload of the configuration may have ended the search meanwhile.
    if (!wanted.includes(server)) return
    // Keep a server that was found earlier: it may just be too busy to respond.
    if (models === 'late') return
    if (models.length === 0) {
      if (found.delete(name)) log.info({ provider: name }, 'local server lost')
      return
    }
    const provider =
      providers.get(name) ?? openAiProvider({ name, baseUrl, apiKey: undefined, headers: {}, models }, { clock })
    providers.set(name, provider)
    if (!found.has(name)) log.info({ provider: name, url: baseUrl, models }, 'local server found')
    found.set(name, { ...provider, models })
  }

  return {
    found,
    async look() {
      await Promise.all(wanted.map(lookFor))
    },
    configure(names, isEnabled) {
      wanted = isEnabled ? servers.filter(({ name }) => !names.includes(name)) : []
      for (const name of found.keys()) if (!wanted.some((one) => one.name === name)) found.delete(name)
    },
    async close() {
      await Promise.all([...providers.values()].map((provider) => provider.close()))
    },
  }
}

/**
 * Returns the models that GET /models lists. Returns an empty list if no server responds or the response is not a model
 * list.
 */
async function askForModels(baseUrl: string, clock: Clock): Promise<string[] | 'late'> {
  const giveUp = new AbortController()
  const timer = clock.after(LOCAL_PROBE_MS, () => giveUp.abort())
  try {
    const { statusCode, body } = await request(`${baseUrl}/models`, { signal: giveUp.signal, reset: true })
    const text = await readText(body)
    return statusCode === 200 && text !== undefined ? modelIds(JSON.parse(text)) : []
  } catch {
    return giveUp.signal.aborted ? 'late' : []
  } finally {
    timer.cancel()
  }
}

/** Returns undefined if the body exceeds LOCAL_MODELS_BYTES. */
async function readText(body: Dispatcher.ResponseData['body']): Promise<string | undefined> {
  const pieces: Buffer[] = []
  let length = 0
  for await (const piece of body as AsyncIterable<Buffer>) {
    length += piece.length
    if (length > LOCAL_MODELS_BYTES) return undefined
    pieces.push(piece)
  }
  return Buffer.concat(pieces).toString()
}

function modelIds(list: unknown): string[] {
  const data = typeof list === 'object' && list !== null && 'data' in list && Array.isArray(list.data) ? list.data : []
  return data
    .map((entry: unknown) => (typeof entry === 'object' && entry !== null && 'id' in entry ? entry.id : undefined))
    .filter((id): id is string => typeof id === 'string' && id !== '')
}
