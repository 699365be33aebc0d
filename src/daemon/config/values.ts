import { isIP, isIPv4 } from 'node:net'
import { parseUrl } from '../../shared/url.ts'

/** Thrown for an invalid value. The message states the fault and a valid form, and never contains a secret. */
export class ValueFault extends Error {
  override name = 'ValueFault'
}

const LISTEN_EXAMPLE = 'write HOST:PORT, such as 127.0.0.1:8787, or [::1]:8787 for IPv6'

/** Parses `HOST:PORT` or `[IPv6]:PORT`. With port 0, the system chooses the port. Throws ValueFault. */
export function parseListen(text: string): { host: string; port: number } {
  if (/^\d+$/.test(text)) throw new ValueFault(`"${text}" has no host; write 127.0.0.1:${text}`)
  if (text.startsWith(':')) {
    throw new ValueFault(`"${text}" has no host; write 127.0.0.1${text}, or 0.0.0.0${text} for every IPv4 interface`)
  }
  const match = /^(?:\[(?<bracketed>[^\]]+)\]|(?<plain>[^:[\]\s/]+)):(?<port>\d{1,5})$/.exec(text)
  const host = match?.groups?.bracketed ?? match?.groups?.plain
  const port = Number(match?.groups?.port)
  if (host === undefined) throw new ValueFault(`"${text}" is not an address; ${LISTEN_EXAMPLE}`)
  if (port > 65_535) throw new ValueFault(`port ${port} is out of range; use 0 to 65535`)
  const bracketed = match?.groups?.bracketed !== undefined
  if (bracketed && isIP(host) !== 6) throw new ValueFault(`"${host}" is not an IPv6 address; ${LISTEN_EXAMPLE}`)
  if (/^[\d.]+$/.test(host) && !isIPv4(host))
    throw new ValueFault(`"${host}" is not an IPv4 address; ${LISTEN_EXAMPLE}`)
  return { host, port }
}

/** Checks the base URL of a collector of traces and metrics. Throws ValueFault. */
export function parseCollector(text: string): string {
  const example = 'write the base URL of a collector, such as http://127.0.0.1:4318'
  const url = parseUrl(text)
  if (!url || !/^https?:$/.test(url.protocol)) throw new ValueFault(`is not an http or https URL; ${example}`)
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '')
    throw new ValueFault(`must contain no credentials, query or fragment; use telemetry.headers for credentials`)
  return text
}

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000 } as const

/**
 * Converts a duration such as `500ms`, `25s` or `2m` to milliseconds. The default bounds are 0 and 10 minutes. Throws
 * ValueFault.
 */
export function parseDuration(text: string, bounds = { min: 0, max: 10 * UNIT_MS.m }): number {
  const match = /^(\d{1,9})(ms|s|m)$/.exec(text)
  if (match === null) throw new ValueFault(`"${text}" is not a duration; write a number and ms, s or m, such as 25s`)
  const ms = Number(match[1]) * UNIT_MS[match[2] as keyof typeof UNIT_MS]
  if (ms < bounds.min) throw new ValueFault(`${text} is too short; use at least ${bounds.min / UNIT_MS.s}s`)
  if (ms > bounds.max) throw new ValueFault(`${text} is too long; use at most ${bounds.max / UNIT_MS.m}m`)
  return ms
}

const UNIT_BYTES = { KB: 1_024, MB: 1_048_576, GB: 1_073_741_824 } as const

/**
 * Converts a size such as `64KB`, `32MB` or `1GB` to bytes, and checks that it is within `bounds`. Throws ValueFault.
 */
export function parseSize(text: string, bounds: { min: number; max: number }): number {
  const match = /^(\d{1,9})(KB|MB|GB)$/.exec(text)
  if (match === null) throw new ValueFault(`"${text}" is not a size; write a number and KB, MB or GB, such as 32MB`)
  const bytes = Number(match[1]) * UNIT_BYTES[match[2] as keyof typeof UNIT_BYTES]
  if (bytes < bounds.min) throw new ValueFault(`${text} is too small; use at least ${shownSize(bounds.min)}`)
  if (bytes > bounds.max) throw new ValueFault(`${text} is too large; use at most ${shownSize(bounds.max)}`)
  return bytes
}

function shownSize(bytes: number): string {
  const unit = (['GB', 'MB'] as const).find((name) => bytes % UNIT_BYTES[name] === 0) ?? 'KB'
  return `${Math.ceil(bytes / UNIT_BYTES[unit])}${unit}`
}

/** Parses `true` or `false`. Throws ValueFault. */
export function parseSwitch(text: string): boolean {
  if (text !== 'true' && text !== 'false') throw new ValueFault(`"${text}" is not a valid value; write true or false`)
  return text === 'true'
}

/**
 * Parses a key of 32 bytes in hex or base64, and returns it as 64 hex characters. Throws a ValueFault that names the
 * file but does not contain the key.
 */
export function parseMasterKey(text: string, path: string): string {
  if (/^[0-9a-fA-F]{64}$/.test(text)) return text.toLowerCase()
  // In base64, 32 bytes are 43 characters and one padding character. The last two bits of the 43rd character must be 0.
  if (/^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/.test(text)) return Buffer.from(text, 'base64').toString('hex')
  throw new ValueFault(
    `${path} must contain a master key of 64 characters 0-9a-f; create one with: openssl rand -hex 32`,
  )
}

/** Parses a file descriptor. Throws ValueFault. */
export function parseDescriptor(text: string): number {
  if (!/^\d{1,6}$/.test(text)) throw new ValueFault(`"${text}" is not a file descriptor; write its number, such as 3`)
  return Number(text)
}

/**
 * Validates a postgres:// URL and returns it unchanged. Throws a ValueFault that does not contain the URL, because the
 * URL may contain a password.
 */
export function parseDatabaseUrl(text: string): string {
  if (!/^postgres(ql)?:\/\//.test(text)) {
    throw new ValueFault(
      'is not a PostgreSQL URL; write postgres://USER:PASSWORD@HOST:5432/DATABASE, or remove it to use SQLite in the data directory',
    )
  }
  if (parseUrl(text) === undefined)
    throw new ValueFault('is not a valid URL; percent-encode special characters in the password')
  return text
}

/** Parses the http(s) URL of a provider and removes trailing slashes. Throws ValueFault. */
export function parseBaseUrl(text: string): string {
  const url = parseUrl(text)
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw new ValueFault('is not an http or https URL; write it with its scheme, such as https://api.example.com/v1')
  }
  if (url.username !== '' || url.password !== '')
    throw new ValueFault('contains a user or password; use api_key or headers')
  if (url.search !== '' || url.hash !== '')
    throw new ValueFault('contains a query or fragment; use only scheme, host and path')
  return text.replace(/\/+$/, '')
}

/** Runs `parse` for an environment variable, and adds the variable's name to the message of a ValueFault. */
export function ofVariable<T>(variable: string | undefined, parse: () => T): T {
  try {
    return parse()
  } catch (error) {
    if (error instanceof ValueFault) throw new ValueFault(`environment variable ${variable} ${error.message}`)
    throw error
  }
}

/** Validates a key for the Authorization header. Throws a ValueFault that does not contain the key. */
export function parseApiKey(text: string): string {
  if (!/^[\x21-\x7e]+$/.test(text))
    throw new ValueFault('contains a space, a line end or another character that is not allowed in a key')
  return text
}
