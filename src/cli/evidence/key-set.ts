/** Loads the public keys that a verification trusts. */
import { InvalidArgumentError } from 'commander'
import { KeySetError, type PublishedKey, parseKeySet } from '../../shared/evidence/keys.ts'
import { notAGateway, parseBody } from '../api/http-errors.ts'
import type { CliContext } from '../context.ts'
import { EXIT, usageError } from '../errors.ts'
import { readText } from '../input/text-input.ts'
import { hasDoubledMember } from './doubled-members.ts'

export const KEYS_PATH = '/.well-known/aigw-keys.json'
export const KEYS_OPTION = ['--keys <file>', `the keys to trust: a copy of ${KEYS_PATH}`, onlyFile] as const

/** Rejects a repeated flag, because the first file would be silently discarded. */
export function onlyFile(file: string, earlier: string | undefined): string {
  if (earlier !== undefined) throw new InvalidArgumentError('It was given more than once; name one file.')
  return file
}

/** The trusted public keys, and the source from which they were loaded. */
export type TrustedKeys = {
  /** `renew` changes the contents of this list. */
  keys: PublishedKey[]
  from: 'file' | 'export' | 'gateway'
  /** Fetches the keys again, at most once. Returns false if the keys are unchanged. */
  renew(): Promise<boolean>
}

/** Returns a key set that is never renewed. */
export const fixedKeys = (keys: PublishedKey[], from: 'file' | 'export'): TrustedKeys => ({
  keys,
  from,
  renew: async () => false,
})

/** Returns the result of `check`. If `check` throws, renews the keys and runs `check` again. */
export async function withKeys<T>({ keys, renew }: TrustedKeys, check: (keys: PublishedKey[]) => T): Promise<T> {
  try {
    return check(keys)
  } catch (error) {
    if (!(await renew())) throw error
    return check(keys)
  }
}

/** Returns the keys in a file. Throws a usage error if the file contains no keys. */
export async function readKeyFile(path: string): Promise<PublishedKey[]> {
  const text = await readText(path)
  try {
    const keys = parseKeySet(JSON.parse(text))
    if (hasDoubledMember(text)) throw new KeySetError('it has a duplicate member')
    return keys
  } catch (error) {
    throw usageError(`${path} contains no published keys (${error instanceof Error ? error.message : error})`, [
      `Save the response of ${KEYS_PATH} of a gateway.`,
    ])
  }
}

/** Fetches the published keys, without an API key. Returns the keys and the bytes of the response. */
export async function fetchKeys(context: CliContext): Promise<TrustedKeys & { raw: Buffer }> {
  let isRenewed = false
  const published = {
    ...(await askForKeys(context)),
    from: 'gateway' as const,
    async renew() {
      if (isRenewed) return false
      isRenewed = true
      await context.note('note: a signature has an unknown key; requesting the keys of the gateway again')
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
  // A cached response may be up to five minutes old, so a new key may be missing.
  const headers = { 'cache-control': 'no-cache' }
  const { raw, requestId } = await api.send({ method: 'GET', path: KEYS_PATH, anonymous: true, headers })
  try {
    return { keys: parseKeySet(parseBody(raw)), raw }
  } catch {
    throw notAGateway(EXIT.error, `${api.baseUrl} did not answer with published keys`, { requestId })
  }
}

/** If a file is given, returns its keys. Otherwise returns the keys that the gateway publishes. */
export const getTrustedKeys = async (context: CliContext, file: string | undefined): Promise<TrustedKeys> =>
  file === undefined ? fetchKeys(context) : fixedKeys(await readKeyFile(file), 'file')

/** The result of a verification that used the keys of the export itself. Its exit code is EXIT.ownKeys. */
export const OWN_KEYS = 'consistent, but only by the keys that came with it'

const WORDS: Record<TrustedKeys['from'], string> = {
  file: 'of the named file',
  export: 'of the export itself; --keys makes the check independent of the export',
  gateway: 'that the gateway publishes now; --keys makes the check independent of the gateway',
}

/** Prints the source of the keys on stderr, because a verification is only as trustworthy as the keys. */
export const noteTrust = (context: CliContext, { keys, from }: TrustedKeys): Promise<void> =>
  context.note(`note: trusting the keys ${WORDS[from]} (${keys.map(({ kid }) => kid).join(', ') || 'none'})`)
