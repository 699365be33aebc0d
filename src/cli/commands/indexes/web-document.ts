/** Downloads a document from a web address. */
import { hash } from 'node:crypto'
import http from 'node:http'
import https from 'node:https'
import { basename, extname } from 'node:path'
import { urlToHttpOptions } from 'node:url'
import { TRAIN_FILE_BYTES } from '../../../shared/spec-limits.ts'
import { parseUrl } from '../../../shared/url.ts'
import { CliError, EXIT, usageError } from '../../errors.ts'
import type { Io } from '../../io.ts'
import { type Document, TYPES, typeOf } from './documents.ts'
import { createDialling, type Dialling, OwnNetworkRefused } from './own-network.ts'

/** Timeout of the whole download, including redirects. */
export const FETCH_TIMEOUT_MS = 60_000
const REDIRECTS = 5
const NAME_CHARS = 200

/** Whether an argument is a web address and not a path. */
export const isUrl = (text: string): boolean => /^https?:\/\//i.test(text)

/**
 * Downloads the document at an address. The request contains neither key nor cookies. Throws a usage error if the
 * address contains a password, or if the file is unsupported or exceeds TRAIN_FILE_BYTES. Throws an error with exit
 * code 9 if the download fails.
 */
export async function fetchDocument(
  address: string,
  { io, timeoutMs }: { io: Pick<Io, 'clock' | 'signal'>; timeoutMs: number },
  dialling: Dialling = createDialling(),
): Promise<Document> {
  const late = new AbortController()
  const timer = io.clock.after(timeoutMs, () =>
    late.abort(unavailable(address, `did not arrive within ${timeoutMs / 1000} seconds`)),
  )
  const signal = AbortSignal.any([io.signal, late.signal])
  try {
    const typed = parseAddress(address)
    const { response, url } = await follow(typed, { address, signal, dialling })
    const name = nameOf(typed, url, response.headers)
    const type = typeOf(name)
    if (type === undefined) {
      response.destroy()
      throw usageError(`${address} is an unsupported file type`, [`It would be called '${name}'.`])
    }
    const bytes = await readAll(response, address)
    return {
      name,
      path: address,
      type,
      size: bytes.length,
      async *read() {
        yield bytes
      },
    }
  } catch (error) {
    if (signal.aborted) throw signal.reason
    if (error instanceof OwnNetworkRefused) {
      throw usageError(`${address} leads to ${error.message}`, [
        'If the document is in your own network, add it with its address there.',
      ])
    }
    throw error instanceof CliError ? error : unavailable(address, reasonOf(error), error)
  } finally {
    timer.cancel()
  }
}

type Asked = { address: string; signal: AbortSignal; dialling: Dialling }

async function follow(
  first: URL,
  { address, signal, dialling }: Asked,
): Promise<{ response: http.IncomingMessage; url: URL }> {
  let url = first
  for (let redirects = 0; redirects <= REDIRECTS; redirects++) {
    const response = await get(url, signal, dialling)
    const { statusCode: status = 0, headers } = response
    const next = status >= 300 && status < 400 ? headers.location : undefined
    if (next === undefined) {
      if (status === 200) return { response, url }
      response.destroy()
      throw unavailable(address, `answered ${status}`)
    }
    response.destroy()
    const target = parseAddress(new URL(next, url).href)
    if (url.protocol === 'https:' && target.protocol !== 'https:') {
      throw unavailable(address, `redirects from https to ${target.origin}, which is not encrypted`)
    }
    url = target
  }
  throw unavailable(address, `redirects more than ${REDIRECTS} times`)
}

function parseAddress(text: string): URL {
  const url = parseUrl(text)
  if (url === undefined || !isUrl(url.href)) throw usageError(`'${text}' is not an address of http or https`)
  if (url.username !== '' || url.password !== '') {
    throw usageError(`addresses with a name or password are not supported`, ['Download the file, and add it.'])
  }
  return url
}

function get(url: URL, signal: AbortSignal, { check, lookup }: Dialling): Promise<http.IncomingMessage> {
  check(url.hostname)
  return new Promise((resolve, reject) => {
    const headers = { accept: '*/*', 'accept-encoding': 'identity', 'user-agent': 'aigw-cli' }
    const { get } = url.protocol === 'https:' ? https : http
    get({ ...urlToHttpOptions(url), headers, signal, lookup, agent: false }, resolve).once('error', reject)
  })
}

async function readAll(response: http.IncomingMessage, address: string): Promise<Buffer> {
  const { 'content-length': length, 'content-encoding': encoding = 'identity' } = response.headers
  const tooLarge = () => usageError(`${address} is larger than ${TRAIN_FILE_BYTES / 1024 / 1024} MB`)
  try {
    if (Number(length) > TRAIN_FILE_BYTES) throw tooLarge()
    if (encoding !== 'identity') throw unavailable(address, `sent an unexpected encoding (${encoding})`)
    const chunks: Buffer[] = []
    let size = 0
    for await (const chunk of response) {
      size += chunk.length
      if (size > TRAIN_FILE_BYTES) throw tooLarge()
      chunks.push(chunk)
    }
    if (!response.complete) throw unavailable(address, 'was truncated')
    if (size === 0) throw usageError(`${address} is empty`)
    return Buffer.concat(chunks)
  } finally {
    response.destroy()
  }
}

/**
 * Returns the name of the document: the typed address, then the file name from the server, then an ending. The name
 * contains the whole address, so different pages with the same file name get different document names. If the name has
 * no supported ending, one is added. The ending is derived from the content type if possible.
 */
function nameOf(typed: URL, url: URL, headers: http.IncomingHttpHeaders): string {
  const path = typed.pathname.replace(/\/$/, '/index').split('/').map(partOf).join('/')
  const sent = attachmentName(headers['content-disposition'] ?? '')
  const attachment = sent === undefined ? '' : `/${basename(sent.replaceAll('\\', '/'))}`
  const name = `${typed.host}${path}${partOf(typed.search)}${attachment}`.replace(INVISIBLE, '').normalize('NFC')
  const ending = typeOf(name) === undefined ? endingOf(typed, url, headers) : extname(name)
  const stem = name.endsWith(ending) ? name.slice(0, name.length - ending.length) : name
  if (stem.length + ending.length <= NAME_CHARS) return stem + ending
  const rest = `-${hash('sha256', name).slice(0, HASH_CHARS)}${ending}`
  return stem.slice(0, NAME_CHARS - rest.length).replace(/\p{Surrogate}$/u, '') + rest
}

const HASH_CHARS = 12
/** Invisible characters. Does not match joiners, because Persian text and emoji need them. */
const INVISIBLE = /[\p{Cc}\p{Surrogate}\p{Zl}\p{Zp}]|(?![\u200c\u200d])\p{Cf}/gu

const partOf = (text: string): string => decoded(text).replace(/[\\/]/g, '_')

/** Returns the ending of a supported file type, or an empty string. */
function endingOf(typed: URL, url: URL, headers: http.IncomingHttpHeaders): string {
  const type = headers['content-type']?.split(';')[0]?.trim().toLowerCase()
  const byType = Object.keys(TYPES).find((one) => TYPES[one] === type)
  const byPath = [url, typed]
    .map(({ pathname }) => extname(pathname))
    .find((ending) => typeOf(`a${ending}`) !== undefined)
  return byType ?? byPath ?? ''
}

/** `filename*` has precedence over `filename` (RFC 6266). */
function attachmentName(header: string): string | undefined {
  const extended = /filename\*\s*=\s*utf-8''([^;\s]+)/i.exec(header)?.[1]
  if (extended !== undefined) return decoded(extended)
  const plain = /filename\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;\s]+))/i.exec(header)
  return plain?.[1]?.replace(/\\(.)/g, '$1') ?? plain?.[2]
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

const reasonOf = (error: unknown): string =>
  error instanceof Error && 'code' in error ? `could not be downloaded: ${error.code}` : 'could not be downloaded'

const unavailable = (address: string, reason: string, cause?: unknown) =>
  new CliError(EXIT.unreachable, `${address} ${reason}`, { code: 'DOCUMENT_UNAVAILABLE', cause })
