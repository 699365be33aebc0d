import type { IncomingHttpHeaders } from 'node:http'
import { isObject } from '../../../platform/text/json.ts'

/** The maximum Retry-After that is accepted from a provider. A longer wait is reduced to this value. */
const RETRY_AFTER_SECONDS = 86_400

/**
 * Reads Retry-After in seconds or as any HTTP date (RFC 9110 §10.2.3, §5.6.7). Some providers send durations, ISO dates
 * or `retry-after-ms`. These forms are accepted as well. Returns the longest wait that the headers specify, rounded up
 * and never negative.
 */
export function retryAfterSeconds(headers: IncomingHttpHeaders, nowMs: number): number | undefined {
  const milliseconds = single(headers['retry-after-ms']) ?? single(headers['x-ms-retry-after-ms'])
  if (milliseconds && NUMBER.test(milliseconds)) return wholeSeconds(Number(milliseconds) / 1000)
  const value = single(headers['retry-after'])
  if (!value) return undefined
  const several = /^\d+(\s*,\s*\d+)+$/.test(value) ? value.split(',') : [value]
  if (several.every((one) => NUMBER.test(one.trim()))) return wholeSeconds(Math.max(...several.map(Number)))
  // A date in asctime format has no time zone and means UTC.
  const date = Date.parse(/^[A-Za-z]{3},? .*\d$/.test(value) ? `${value} GMT` : value)
  if (!/^[A-Za-z]{3}/.test(value)) return resetSeconds(value, nowMs)
  return Number.isNaN(date) ? undefined : wholeSeconds((date - nowMs) / 1000)
}

/**
 * Returns the seconds until the exceeded limit resets, from the rate-limit headers. `x-ratelimit-reset[-<limit>]` and
 * `ratelimit-reset` are a number of seconds, a duration such as "6m0s", or a time. `ratelimit` has a member `t` or
 * `reset`. `anthropic-ratelimit-<limit>-reset` is a date. If some limits are exhausted, the result is the longest wait
 * of the exhausted limits. Otherwise, the result is the shortest wait of all limits.
 */
export function limitResetSeconds(headers: IncomingHttpHeaders, nowMs: number): number | undefined {
  const waits: number[] = []
  const usedUp: number[] = []
  for (const [name, value] of Object.entries(headers)) {
    if (!LIMIT_RESET.test(name)) continue
    const seconds = resetSeconds(resetOf(name, single(value) ?? ''), nowMs)
    if (seconds === undefined) continue
    waits.push(seconds)
    if (single(headers[name.replace('reset', 'remaining')]) === '0') usedUp.push(seconds)
  }
  if (usedUp.length > 0) return Math.max(...usedUp)
  return waits.length > 0 ? Math.min(...waits) : undefined
}

/**
 * Returns the wait that Google requests, in seconds. The details of an error contain this wait in a RetryInfo
 * (google/rpc/error_details.proto), for example as "39.4s".
 */
export function retryInfoSeconds(details: unknown): number | undefined {
  if (!Array.isArray(details)) return undefined
  for (const detail of details) {
    if (!isObject(detail) || typeof detail.retryDelay !== 'string') continue
    const seconds = /^(\d+(?:\.\d+)?)s$/.exec(detail.retryDelay)?.[1]
    return seconds === undefined ? undefined : wholeSeconds(Number(seconds))
  }
  return undefined
}

const NUMBER = /^\d+(\.\d+)?$/
const LIMIT_RESET = /^(ratelimit|x-rate-?limit-reset(-[\w-]+)?|ratelimit-reset|anthropic-ratelimit-[\w-]+-reset)$/
const DURATION = /^(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?$/
/** If a number is at least this large, it is a time (seconds or milliseconds since 1970), not a wait. */
const LOWEST_TIME_SECONDS = 1_000_000_000
const LOWEST_TIME_MS = 1_000_000_000_000

function resetSeconds(value: string, nowMs: number): number | undefined {
  if (value === '') return undefined
  if (NUMBER.test(value)) {
    const number = Number(value)
    if (number >= LOWEST_TIME_MS) return wholeSeconds((number - nowMs) / 1000)
    return wholeSeconds(number >= LOWEST_TIME_SECONDS ? number - nowMs / 1000 : number)
  }
  const units = DURATION.exec(value)
  if (units) {
    const [days, hours, minutes, seconds, ms] = units.slice(1).map((unit) => Number(unit ?? 0)) as Units
    return wholeSeconds(((days * 24 + hours) * 60 + minutes) * 60 + seconds + ms / 1000)
  }
  const date = /^\d{4}-\d\d-\d\dT/.test(value) ? Date.parse(value) : Number.NaN
  return Number.isNaN(date) ? undefined : wholeSeconds((date - nowMs) / 1000)
}

/**
 * Extracts the value of the reset from a header. Removes a window (as in `12;w=60`) and the other members of
 * `ratelimit`.
 */
const resetOf = (name: string, value: string): string =>
  (name === 'ratelimit' ? /\b(?:t|reset)=(\d+)/.exec(value)?.[1] : value.split(';')[0]?.trim()) ?? ''

type Units = [number, number, number, number, number]

const wholeSeconds = (seconds: number) => Math.min(Math.max(0, Math.ceil(seconds)), RETRY_AFTER_SECONDS)

/** The values of a repeated header form one list (RFC 9110 §5.2). */
const single = (value: string | string[] | undefined) => (Array.isArray(value) ? value.join(', ') : value)?.trim()
