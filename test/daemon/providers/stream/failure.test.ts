import { describe, expect, test } from 'vitest'
import { reportedError, statusError } from '../../../../src/daemon/providers/stream/failure.ts'
import { retryAfterSeconds } from '../../../../src/daemon/providers/stream/retry-after.ts'

const nowMs = Date.parse('2026-03-01T12:00:00Z')
const failure = (status: number, error: unknown = undefined, headers = {}) =>
  statusError(status, headers, typeof error === 'string' ? error : JSON.stringify({ error }), nowMs)

describe('a status other than 200', () => {
  test.each([
    [429, 'rate_limit', false],
    [500, 'server_error', false],
    [502, 'server_error', false],
    [503, 'server_error', false],
    [504, 'server_error', false],
    [529, 'server_error', false],
    [408, 'timeout', false],
    [401, 'server_error', true],
    [402, 'server_error', true],
    [403, 'server_error', true],
    [404, 'server_error', true],
    [301, 'server_error', true],
    [400, 'bad_request', false],
    [413, 'bad_request', false],
    [422, 'bad_request', false],
  ])('%i is %s, alarm %s', (status, reason, alarm) => {
    expect(failure(status)).toMatchObject({ reason, alarm, upstreamStatus: status, outcome: 'error' })
  })

  test.each([
    [400, { code: 'context_length_exceeded', message: '…' }, 'context_length'],
    [400, { type: 'exceed_context_size_error' }, 'context_length'],
    [413, { message: "This model's maximum context length is 8192 tokens." }, 'context_length'],
    [400, { code: 'content_filter', innererror: { code: 'ResponsibleAIPolicyViolation' } }, 'content_filter'],
    [400, { message: 'no', innererror: { code: 'ResponsibleAIPolicyViolation' } }, 'content_filter'],
    [403, { code: 403, message: 'input was refused', metadata: { reasons: ['violence'] } }, 'content_filter'],
    [400, { code: 'data_inspection_failed' }, 'content_filter'],
    [500, { message: 'context length table is corrupt' }, 'server_error'],
    [429, { code: 'context_length_exceeded' }, 'rate_limit'],
  ])('%i with %j is %s', (status, error, reason) => {
    expect(failure(status, error).reason).toBe(reason)
  })

  test('a used-up quota is an alarm, because waiting does not help', () => {
    expect(failure(429, { code: 'insufficient_quota' })).toMatchObject({ reason: 'rate_limit', alarm: true })
  })

  test('says no more of the body than its short code', () => {
    const error = failure(400, { code: 'unsupported_value', message: 'messages[0] holds the secret 4711' })
    expect(error.message).toBe('The provider answered 400 (unsupported_value).')
    expect(failure(400, { code: 'a long code with 4711' }).message).toBe('The provider answered 400.')
    expect(failure(502, '<html>4711</html>').message).toBe('The provider answered 502.')
  })
})

describe('Retry-After', () => {
  test.each([
    [{ 'retry-after': '7' }, 7],
    [{ 'retry-after': '0' }, 0],
    [{ 'retry-after': '1.2' }, 2],
    [{ 'retry-after-ms': '1500' }, 2],
    [{ 'retry-after-ms': '250', 'retry-after': '9' }, 1],
    [{ 'retry-after': 'Sun, 01 Mar 2026 12:00:30 GMT' }, 30],
    [{ 'retry-after': 'Sunday, 01-Mar-26 12:00:30 GMT' }, 30],
    [{ 'retry-after': 'Sun Mar  1 12:00:30 2026' }, 30],
    [{ 'retry-after': 'Sun, 01 Mar 2026 11:00:00 GMT' }, 0],
    [{ 'retry-after': 'soon' }, undefined],
    [{ 'retry-after': '-5' }, undefined],
    [{ 'retry-after': '' }, undefined],
    [{}, undefined],
  ])('%j is %s seconds', (headers, seconds) => {
    expect(retryAfterSeconds(headers, nowMs)).toBe(seconds)
    expect(failure(429, undefined, headers).retryAfterSeconds).toBe(seconds)
  })

  test.each([
    [{ 'x-ratelimit-reset': '42' }, 42],
    [{ 'x-ratelimit-reset': String(nowMs / 1000 + 12) }, 12],
    [{ 'x-ratelimit-reset': String(nowMs + 12_500) }, 13],
    [{ 'ratelimit-reset': '9' }, 9],
    [{ 'x-ratelimit-reset-requests': '1s', 'x-ratelimit-reset-tokens': '6m0s' }, 1],
    [
      { 'x-ratelimit-reset-requests': '1s', 'x-ratelimit-reset-tokens': '6m0s', 'x-ratelimit-remaining-tokens': '0' },
      360,
    ],
    [{ 'x-ratelimit-reset-tokens': '1h2m3.5s' }, 3724],
    [{ 'x-ratelimit-reset-tokens': '80ms' }, 1],
    [{ 'anthropic-ratelimit-tokens-reset': '2026-03-01T12:00:08Z' }, 8],
    [
      {
        'anthropic-ratelimit-requests-reset': '2026-03-01T12:01:00Z',
        'anthropic-ratelimit-requests-remaining': '0',
        'anthropic-ratelimit-tokens-reset': '2026-03-01T12:00:01Z',
        'anthropic-ratelimit-tokens-remaining': '4000',
      },
      60,
    ],
    [{ 'retry-after': '3', 'x-ratelimit-reset': '42' }, 3],
    [{ 'x-ratelimit-reset': 'soon' }, undefined],
    [{ 'retry-after': '9'.repeat(400) }, 86_400],
  ])('of a limit that was hit, %j, is %s seconds', (headers, seconds) => {
    expect(failure(429, undefined, headers).retryAfterSeconds).toBe(seconds)
  })

  test('is not read from what is left of limits that were not hit', () => {
    expect(failure(503, undefined, { 'x-ratelimit-reset-requests': '1s' }).retryAfterSeconds).toBeUndefined()
  })

  test('is the RetryInfo of the body where no header tells', () => {
    const details = [{ '@type': 'x' }, { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '39.4s' }]
    expect(failure(429, { details }).retryAfterSeconds).toBe(40)
    expect(failure(429, { details: [{ retryDelay: 'later' }] }).retryAfterSeconds).toBeUndefined()
  })
})

test.each([
  [{ type: 'server_error', code: null }, 'server_error'],
  [{ type: 'rate_limit_error' }, 'rate_limit'],
  [{ code: 429 }, 'rate_limit'],
  [{ code: '503' }, 'server_error'],
  [{ code: 400, type: 'provider_error' }, 'bad_request'],
  [{ type: 'invalid_request_error', code: 'context_length_exceeded' }, 'context_length'],
  [{ type: 'invalid_request_error' }, 'bad_request'],
  [{ code: 'content_filter' }, 'content_filter'],
  [{ type: 'overloaded_error' }, 'server_error'],
  ['it broke', 'server_error'],
  [true, 'server_error'],
])('the error object %j in a 200 is %s', (error, reason) => {
  expect(reportedError(error).reason).toBe(reason)
})
