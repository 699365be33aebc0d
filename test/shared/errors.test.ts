import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { compatCodeOf, ERRORS, type ErrorCode, GatewayError, isRetryable } from '../../src/shared/errors.ts'

const page = readFileSync(new URL('../../docs/errors.md', import.meta.url), 'utf8')

test('docs/errors.md lists every error with its words, and no other', () => {
  const rows = [...page.matchAll(/^\| `([A-Z_]+)` \| (\d+) \| (.+) \| `([a-z_]+)` \| (yes|no) \|$/gm)]
  const documented = rows.map(([, code, status, label, compatCode, retryable]) => [
    code,
    { status: Number(status), label, compatCode, retryable: retryable === 'yes' },
  ])
  const actual = Object.entries(ERRORS).map(([code, { status, label }]) => [
    code,
    { status, label, compatCode: compatCodeOf(code as ErrorCode), retryable: isRetryable(code as ErrorCode) },
  ])
  expect(Object.fromEntries(documented)).toEqual(Object.fromEntries(actual))
  expect(documented).toHaveLength(actual.length)
})

test('a provider that rejects a request gives the code of its reason', () => {
  expect(compatCodeOf('PROVIDER_REJECTED', 'context_length')).toBe('context_length_exceeded')
  expect(compatCodeOf('PROVIDER_REJECTED', 'content_filter')).toBe('content_filter')
  expect(compatCodeOf('PROVIDER_REJECTED', 'bad_request')).toBe('provider_rejected')
})

test('an error may be final although its code is usually retryable, but not the reverse', () => {
  expect(new GatewayError('ALL_MODELS_FAILED', 'x').retryable).toBe(true)
  expect(new GatewayError('ALL_MODELS_FAILED', 'x', { retryable: false }).retryable).toBe(false)
  expect(new GatewayError('VALIDATION_ERROR', 'x').retryable).toBe(false)
})
