import { InvalidArgumentError } from 'commander'
import { KeySetError, type PublishedKey, parseKeySet } from '../../shared/evidence/keys.ts'
import { notAGateway, parseBody } from '../api/http-errors.ts'
import type { CliContext } from '../context.ts'
import { EXIT, usageError } from '../errors.ts'
import { readText } from '../input/text-input.ts'
import { hasDoubledMember } from './doubled-members.ts'

export const KEYS_PATH = '/.well-known/aigw-keys.json'
export const KEYS_OPTION = ['--keys <file>', `the keys to trust: a copy of ${KEYS_PATH}`, onlyFile] as const

/** Of two files, one would be ignored, and the check would be worth less than its user believes. */
function onlyFile(file: string, earlier: string | undefined): string {
  if (earlier !== undefined) throw new InvalidArgumentError('It was given more than once; name one file.')
  return file
}

/** Public keys, and whose word it is that they are the right ones. */
export type TrustedKeys = {
  /** The same list throughout: `renew` changes what is in it. */
  keys: PublishedKey[]
  from: 'file' | 'export' | 'gateway'
  /** Asks the gateway for them again, the first time; false where they stay as they are. */
  renew(): Promise<boolean>
}

/** Keys that stay as they are. */
export const fixedKeys = (keys: PublishedKey[], from: 'file' | 'export'): TrustedKeys => ({
  keys,
  from,
  renew: async () => false,
})

/** What `check` gives; when it throws, what it gives after the keys were asked for again. */
export async function withKeys<T>({ keys, renew }: TrustedKeys, check: (keys: PublishedKey[]) => T): Promise<T> {
  try {
    return check(keys)
  } catch (error) {
    if (!(await renew())) throw error
    return check(keys)
  }
}

/** The keys of a file. Throws a usage error for a file that holds none. */
export async function readKeyFile(path: string): Promise<PublishedKey[]> {
  const text = await readText(path)
  try {
    const keys = parseKeySet(JSON.parse(text))
    if (hasDoubledMember(text)) throw new KeySetError('a member stands in it twice')
    return keys
  } catch (error) {
    throw usageError(`${path} holds no published keys (${error instanceof Error ? error.message : error})`, [
      `It is what a gateway answers at ${KEYS_PATH}.`,
    ])
  }
}

/** The keys that the gateway publishes, and the bytes of its last answer; asked without an API key. */
export async function fetchKeys(context: CliContext): Promise<TrustedKeys & { raw: Buffer }> {
  let isRenewed = false
  const published = {
    ...(await askForKeys(context)),
    from: 'gateway' as const,
    async renew() {
      if (isRenewed) return false
      isRenewed = true
      await context.note('note: something is signed with another key; asking the gateway for its keys again')
      const { keys, raw } = await askForKeys(context)
      published.keys.splice(0, published.keys.length, ...keys)
      published.raw = raw
      await noteTrust(context, published)
      return true
    },
  }
  return published
}

async function askForKeys(context: CliContext): Promise<{ keys: PublishedKey[]; raw: Buffer }> {
  const api = await context.api()
  // Else the answer may be as old as five minutes, and a key that was made since is not in it.
  const headers = { 'cache-control': 'no-cache' }
  const { raw, requestId } = await api.send({ method: 'GET', path: KEYS_PATH, anonymous: true, headers })
  try {
    return { keys: parseKeySet(parseBody(raw)), raw }
  } catch {
    throw notAGateway(EXIT.error, `${api.baseUrl} did not answer with published keys`, { requestId })
  }
}

/** What is to be trusted: the file, where one was named, else what the gateway says of itself. */
export const getTrustedKeys = async (context: CliContext, file: string | undefined): Promise<TrustedKeys> =>
  file === undefined ? fetchKeys(context) : fixedKeys(await readKeyFile(file), 'file')

const WORDS: Record<TrustedKeys['from'], string> = {
  file: 'of the file that was named',
  export: "of the export itself; with --keys it is checked without the export's own word",
  gateway: "that the gateway publishes now; with --keys it is checked without the gateway's own word",
}

/** Says on stderr whose keys were trusted: a check is worth as much as they are. */
export const noteTrust = (context: CliContext, { keys, from }: TrustedKeys): Promise<void> =>
  context.note(`note: trusting the keys ${WORDS[from]} (${keys.map(({ kid }) => kid).join(', ') || 'none'})`)
