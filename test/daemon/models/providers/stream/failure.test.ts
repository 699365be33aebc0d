import { describe, expect, test } from 'vitest'
import { reportedError, statusError } from '../../../../../src/daemon/models/providers/stream/failure.ts'
import { retryAfterSeconds } from '../../../../../src/daemon/models/providers/stream/retry-after.ts'

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
    [401, 'auth_failed', true],
    [402, 'quota_exhausted', true],
    [403, 'auth_failed', true],
    [404, 'model_not_found', true],
    [301, 'server_error', true],
    [400, 'bad_request', false],
    [413, 'bad_request', false],
    [415, 'bad_request', false],
    [405, 'server_error', false],
    [409, 'server_error', false],
    [410, 'model_not_found', true],
    [423, 'server_error', false],
    [425, 'server_error', false],
    [498, 'server_error', false],
    [499, 'server_error', false],
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
    [
      400,
      { message: "This model's maximum prompt length is 131072 but the request contains 200000 tokens." },
      'context_length',
    ],
    [
      400,
      { message: 'The decoder prompt (length 9000) is longer than the maximum model length of 8192.' },
      'context_length',
    ],
    [400, { message: 'Your request exceeded model token limit: 8192' }, 'context_length'],
    [400, { message: 'Prompt exceeds max length', code: '1261' }, 'context_length'],
    [400, { message: 'Range of input length should be [1, 30720]' }, 'context_length'],
    [422, { message: '`inputs` tokens + `max_new_tokens` must be <= 4097.' }, 'context_length'],
    [400, { message: 'input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000' }, 'context_length'],
    [
      400,
      { message: 'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).' },
      'context_length',
    ],
    [403, { message: 'Content violates usage guidelines.' }, 'content_filter'],
    [400, { message: 'Content Exists Risk', type: 'invalid_request_error' }, 'content_filter'],
    [400, { message: 'Output blocked by content filtering policy' }, 'content_filter'],
    [400, { code: 'tool_use_failed', type: 'invalid_request_error' }, 'server_error'],
    [400, { code: 'json_validate_failed', type: 'invalid_request_error' }, 'server_error'],
    [413, { code: 'rate_limit_exceeded', type: 'tokens', message: 'Request too large for model' }, 'rate_limit'],
    [400, { code: 'ThrottlingException' }, 'rate_limit'],
    [500, { message: 'context length table is corrupt' }, 'server_error'],
    [429, { code: 'context_length_exceeded' }, 'rate_limit'],
    [400, { message: 'Incorrect API key provided: xai-***' }, 'auth_failed'],
    [400, { code: 'invalid_api_key' }, 'auth_failed'],
    [400, { code: 'model_decommissioned', type: 'invalid_request_error' }, 'model_not_found'],
    [400, { code: 'invalid_model' }, 'model_not_found'],
    [400, { message: 'The provided model identifier is invalid.' }, 'model_not_found'],
    [400, { code: 'Arrearage', message: 'Access denied' }, 'quota_exhausted'],
    [400, { code: 'billing_not_active' }, 'quota_exhausted'],
    [400, { message: 'This organization has been disabled.' }, 'auth_failed'],
    [400, { message: 'Rate limit exceeded for this model.' }, 'rate_limit'],
    [400, { message: 'The tool rate_limit has no parameters' }, 'bad_request'],
    [403, { message: 'Your account is under moderation and was flagged.' }, 'auth_failed'],
    [403, { code: 'content_policy_violation' }, 'content_filter'],
  ])('%i with %j is %s', (status, error, reason) => {
    expect(failure(status, error).reason).toBe(reason)
  })

  test.each([
    [400, { status: 'INVALID_ARGUMENT', message: 'Invalid JSON payload. Unknown name "requestsPerDay" at tools[0]' }],
    [400, { status: 'INVALID_ARGUMENT', details: [{ violations: [{ quotaId: 'PerDay', field: 'tools[0]' }] }] }],
    [400, { type: 'invalid_request_error', message: 'tools.0.name: maxCallsPerDay has a bad character' }],
    [400, { message: "Invalid value: 'Write about our monthly spending limit'" }],
    [400, { message: "Invalid value: 'Your credit balance is too low'" }],
    [400, { message: 'messages.0.content: your credit balance is too low' }],
    [400, { message: 'tools[0].parameters: model not found in schema enum' }],
    [400, { message: 'Unknown parameter: unknown model, invalid model id' }],
    [400, { message: "tool 'get_account' failed: user notauthorized" }],
    [400, { message: 'Invalid value: api key not valid, invalid api key' }],
    [400, { message: "Invalid value: 'Rate limit exceeded'" }],
    [422, { message: 'body.prompt: insufficient balance' }],
    [404, { type: 'not_found_error', message: 'File not found: file_01' }],
    [404, { type: 'invalid_request_error', message: 'No such File object: file-01' }],
    [404, { type: 'invalid_request_error', message: "Item with id 'rs_01' not found." }],
    [404, { code: 404, message: 'No endpoints found that support tool use. To learn more, visit the docs.' }],
    [403, { status: 'PERMISSION_DENIED', message: 'You do not have permission to access the File x.' }],
    [400, { status: 'FAILED_PRECONDITION', message: 'The File x is not in an ACTIVE state and usage is not allowed.' }],
  ])('%i with %j is an error of the request, without an alarm', (status, error) => {
    expect(failure(status, error)).toMatchObject({ reason: 'bad_request', alarm: false })
  })

  test.each([
    [403, 'auth_failed', { message: "Invalid value: 'model_not_found, spending limit'" }],
    [404, 'model_not_found', { message: 'The model `perday-insufficient_quota` does not exist' }],
    [404, 'model_not_found', { code: 404, message: 'No endpoints found for x/y.' }],
    [429, 'rate_limit', { message: 'Rate limit reached for model requestsPerDay' }],
  ])('the text of a %i does not change its reason %s: %j', (status, reason, error) => {
    expect(failure(status, error).reason).toBe(reason)
  })

  test('an exhausted quota is an alarm, because waiting does not help', () => {
    expect(failure(429, { code: 'insufficient_quota' })).toMatchObject({ reason: 'quota_exhausted', alarm: true })
  })

  test('an error contains only the short code of the body', () => {
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
    [{ 'retry-after': '30s' }, 30],
    [{ 'retry-after': '1m30s' }, 90],
    [{ 'retry-after': '1500ms' }, 2],
    [{ 'retry-after': '2026-03-01T12:00:20Z' }, 20],
    [{ 'retry-after': '5, 10' }, 10],
    // Twice in a response; the type of Node allows only one.
    [{ 'retry-after': ['5', '10'] as unknown as string }, 10],
    [{ 'x-ms-retry-after-ms': '2500' }, 3],
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
    [{ 'ratelimit-reset': '12;w=60' }, 12],
    [{ ratelimit: 'limit=100, remaining=0, reset=50' }, 50],
    [{ ratelimit: '"default";r=0;t=30' }, 30],
    [{ 'x-rate-limit-reset': '42' }, 42],
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
  ])('of an exhausted limit, %j, is %s seconds', (headers, seconds) => {
    expect(failure(429, undefined, headers).retryAfterSeconds).toBe(seconds)
  })

  test('ignores the resets of other limits', () => {
    expect(failure(503, undefined, { 'x-ratelimit-reset-requests': '1s' }).retryAfterSeconds).toBeUndefined()
  })

  test('is read from the headers that OpenRouter passes on in its body', () => {
    const headers = {
      'X-RateLimit-Limit': '20',
      'X-RateLimit-Remaining': '0',
      'X-RateLimit-Reset': String(nowMs + 9_000),
    }
    expect(failure(429, { code: 429, message: 'x', metadata: { headers } }).retryAfterSeconds).toBe(9)
  })

  test('is the RetryInfo of the body without a header', () => {
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
  [{ type: 'server_error', message: 'The model failed: validation of output' }, 'server_error'],
  [{ type: 'api_error', message: 'Internal: context window of the cache, content policy' }, 'server_error'],
  [{ message: 'Unsupported: validation of the request' }, 'server_error'],
  [{ type: 'server_error', code: 'rate_limit_exceeded' }, 'rate_limit'],
  [{ message: 'Rate limit reached' }, 'rate_limit'],
  [{ type: 'authentication_error', message: 'invalid x-api-key' }, 'auth_failed'],
  [{ type: 'permission_error' }, 'auth_failed'],
  [{ type: 'not_found_error', message: 'model: x' }, 'model_not_found'],
  [{ type: 'not_found_error', message: 'File not found: file_01' }, 'bad_request'],
  [{ type: 'billing_error' }, 'quota_exhausted'],
  [{ type: 'insufficient_quota', code: 'insufficient_quota' }, 'quota_exhausted'],
  [{ code: 402, message: 'Insufficient credits' }, 'quota_exhausted'],
  [{ type: 'server_error', message: 'model not found, spending limit, invalid api key' }, 'server_error'],
  ['it broke', 'server_error'],
  [true, 'server_error'],
])('the error object %j in a 200 is %s', (error, reason) => {
  expect(reportedError(error).reason).toBe(reason)
})
