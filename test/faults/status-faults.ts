import { both, type Expected, type Fault } from './fault.ts'
import { bytes, flood, head, json, reply } from './plays.ts'

const failed: Expected = { fails: 'server_error' }
const transient: Expected = { fails: 'server_error', transient: true }
const ours: Expected = { fails: 'server_error', ours: true }
const refused: Expected = { refuses: 'bad_request' }

const STATUSES: [number, Expected][] = [
  ...[201, 202, 204, 206, 301, 302, 303, 304, 307, 308].map((status): [number, Expected] => [status, ours]),
  ...[401, 403].map((status): [number, Expected] => [status, { fails: 'auth_failed', ours: true }]),
  [402, { fails: 'quota_exhausted', ours: true }],
  ...[404, 410].map((status): [number, Expected] => [status, { fails: 'model_not_found', ours: true }]),
  ...[400, 413, 415, 422].map((status): [number, Expected] => [status, refused]),
  ...[405, 406, 409, 411, 414, 418, 423, 425, 431, 451, 498, 499].map((status): [number, Expected] => [status, failed]),
  [408, { fails: 'timeout' }],
  ...[500, 502, 503].map((status): [number, Expected] => [status, transient]),
  ...[424, 501, 504, 505, 507, 520, 522, 524, 529, 599, 999].map((status): [number, Expected] => [status, failed]),
]

const message = { error: { message: 'secret detail', type: 'some_error' } }
const page = `<!doctype html><title>secret detail</title>${'<p>sorry</p>'.repeat(100)}`

const statuses: Fault[] = STATUSES.map(([status, expected]) =>
  both(
    `status ${status}`,
    status === 204 || status === 304
      ? bytes([head(status)], 'silence')
      : json(message, status, { location: '/v1/elsewhere' }),
    expected,
  ),
)

const bodies: Fault[] = [
  both('a 500 with a page', reply(500, page, { 'content-type': 'text/html' }), transient),
  both('a 400 with a page', reply(400, page, { 'content-type': 'text/html' }), refused),
  both('a 503 without a body', reply(503, ''), transient),
  both('a 500 that breaks off', bytes([head(500, { 'content-length': '100' }), '{"error":']), transient),
  both('a 500 that does not end', bytes([head(500, { 'content-length': '100' }), '{"error":'], 'silence'), transient),
  both('a 500 with a body without end', flood([head(500)], 'x'.repeat(65_536)), transient),
  both('a 502 with half a JSON', reply(502, '{"error": {"mess'), transient),
  both('a 500 whose error is a list', json([message], 500), transient),
  both('a 500 whose error is a text', json({ error: 'secret detail' }, 500), transient),
  both('a 500 whose body is null', json(null, 500), transient),
]

const coded = (name: string, status: number, code: string, expected: Expected): Fault =>
  both(name, json({ error: { message: 'secret detail', code } }, status), expected)

const codes: Fault[] = [
  coded('a 400 for the length of the prompt', 400, 'context_length_exceeded', { refuses: 'context_length' }),
  coded('a 413 for the length of the prompt', 413, 'context_length_exceeded', { refuses: 'context_length' }),
  coded('a 400 of the content filter', 400, 'content_filter', { refuses: 'content_filter' }),
  coded('a 403 of the content filter', 403, 'content_policy_violation', { refuses: 'content_filter' }),
  coded('a 400 for our key', 400, 'API_KEY_INVALID', { fails: 'auth_failed', ours: true }),
  coded('a quota that is used up', 429, 'insufficient_quota', { fails: 'quota_exhausted', ours: true }),
]

/** `from` to `to` is the accepted range of Retry-After in seconds. Undefined if the header cannot be parsed. */
const limited = (name: string, headers: Record<string, string>, range?: readonly [number, number]): Fault =>
  both(`a 429 ${name}`, json(message, 429, headers), {
    fails: 'rate_limit',
    ...(range && { retryAfter: range }),
  })

const WAIT_SECONDS = 90

/** `toText` formats a time in one of the forms that HTTP allows. */
const limitedUntil = (name: string, toText: (moment: Date) => string): Fault =>
  both(
    `a 429 ${name}`,
    (exchange) => {
      const moment = new Date(exchange.nowMs() + WAIT_SECONDS * 1_000)
      return json(message, 429, { 'retry-after': toText(moment) })(exchange)
    },
    { fails: 'rate_limit', retryAfter: [WAIT_SECONDS, WAIT_SECONDS] },
  )

function partsOf(moment: Date) {
  const [, day = '', month = '', year = '', time = ''] =
    /^\w+, (\d\d) (\w+) (\d+) ([\d:]+)/.exec(moment.toUTCString()) ?? []
  return { weekday: moment.toLocaleDateString('en-US', { weekday: 'long', timeZone: 'UTC' }), day, month, year, time }
}

const rateLimits: Fault[] = [
  limited('without a Retry-After', {}),
  limited('with seconds', { 'retry-after': '7' }, [7, 7]),
  limited('with a fraction of seconds', { 'retry-after': '1.2' }, [2, 2]),
  limited('with no seconds', { 'retry-after': '0' }, [0, 0]),
  limited('with milliseconds', { 'retry-after-ms': '2500' }, [3, 3]),
  limitedUntil('with a date', (moment) => moment.toUTCString()),
  limitedUntil('with a date of RFC 850', (moment) => {
    const { weekday, day, month, year, time } = partsOf(moment)
    return `${weekday}, ${day}-${month}-${year.slice(2)} ${time} GMT`
  }),
  limitedUntil('with a date of asctime', (moment) => {
    const { weekday, day, month, year, time } = partsOf(moment)
    return `${weekday.slice(0, 3)} ${month} ${day.replace(/^0/, ' ')} ${time} ${year}`
  }),
  limited('with a date that is over', { 'retry-after': 'Wed, 01 Jan 2020 00:00:00 GMT' }, [0, 0]),
  limited('with a negative wait', { 'retry-after': '-5' }),
  limited('with a word', { 'retry-after': 'soon' }),
  limited('with a wait of years', { 'retry-after': '99999999999' }, [86_400, 86_400]),
  limited('with the reset of its limit', { 'x-ratelimit-reset-requests': '6s' }, [6, 6]),
]

/** Retry-After is returned only if all tried models requested a wait. */
const outages: Fault[] = [
  both('a 503 with a wait', json(message, 503, { 'retry-after': '20' }), {
    fails: 'server_error',
    transient: true,
    retryAfter: [20, 20],
  }),
]

export const statusFaults: readonly Fault[] = [...statuses, ...bodies, ...codes, ...rateLimits, ...outages]
