import { type PublishedKey, parseKeySet } from '../../shared/evidence/keys.ts'
import type { CliContext } from '../context.ts'
import { EXIT, usageError } from '../errors.ts'
import { notAGateway, parseBody } from '../http-errors.ts'
import { readText } from '../text-input.ts'

export const KEYS_PATH = '/.well-known/aigw-keys.json'
export const KEYS_OPTION = ['--keys <file>', `the keys to trust: a copy of ${KEYS_PATH}`] as const

/** Public keys, and whose word it is that they are the right ones. */
export type TrustedKeys = { keys: PublishedKey[]; from: 'file' | 'export' | 'gateway' }

/** The keys of a file. Throws a usage error for a file that holds none. */
export async function readKeyFile(path: string): Promise<PublishedKey[]> {
  const text = await readText(path)
  try {
    return parseKeySet(JSON.parse(text))
  } catch (error) {
    throw usageError(`${path} holds no published keys (${error instanceof Error ? error.message : error})`, [
      `It is what a gateway answers at ${KEYS_PATH}.`,
    ])
  }
}

/** The keys that the gateway publishes, and the bytes of its answer; asked without an API key. */
export async function fetchKeys(context: CliContext): Promise<{ keys: PublishedKey[]; raw: Buffer }> {
  const api = await context.api()
  const { raw, requestId } = await api.send({ method: 'GET', path: KEYS_PATH, anonymous: true })
  try {
    return { keys: parseKeySet(parseBody(raw)), raw }
  } catch {
    throw notAGateway(EXIT.error, `${api.baseUrl} did not answer with published keys`, { requestId })
  }
}

/** What is to be trusted: the file, where one was named, else what the gateway says of itself. */
export const getTrustedKeys = async (context: CliContext, file: string | undefined): Promise<TrustedKeys> =>
  file === undefined
    ? { keys: (await fetchKeys(context)).keys, from: 'gateway' }
    : { keys: await readKeyFile(file), from: 'file' }

const WORDS: Record<TrustedKeys['from'], string> = {
  file: 'of the file that was named',
  export: "of the export itself; with --keys it is checked without the export's own word",
  gateway: "that the gateway publishes now; with --keys it is checked without the gateway's own word",
}

/** Says on stderr whose keys were trusted: a check is worth as much as they are. */
export const noteTrust = (context: CliContext, { keys, from }: TrustedKeys): Promise<void> =>
  context.note(`note: trusting the keys ${WORDS[from]} (${keys.map(({ kid }) => kid).join(', ') || 'none'})`)
