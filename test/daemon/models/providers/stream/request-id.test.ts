import { expect, test } from 'vitest'
import { requestIdOf } from '../../../../../src/daemon/models/providers/stream/request-id.ts'

test.each([
  ['OpenAI', { 'x-request-id': 'req_0123456789abcdef', 'cf-ray': '9f1-FRA' }, 'req_0123456789abcdef'],
  ['Anthropic', { 'request-id': 'req_011CSHoEeqs5C35K2UUqR7Fy', 'cf-ray': '9f1-FRA' }, 'req_011CSHoEeqs5C35K2UUqR7Fy'],
  ['Bedrock', { 'x-amzn-requestid': '7a1f-4b' }, '7a1f-4b'],
  ['Azure', { 'apim-request-id': '1c2d-3e' }, '1c2d-3e'],
  ['Google', { 'x-goog-request-id': 'CPj+/=' }, 'CPj+/='],
  ['Mistral', { 'mistral-correlation-id': '019ea88e-3385', 'x-kong-request-id': '019ea88e-3385' }, '019ea88e-3385'],
  ['DeepSeek', { 'x-ds-trace-id': 'fb3cc734' }, 'fb3cc734'],
  ['NVIDIA', { 'nvcf-reqid': '771011d8-97ab' }, '771011d8-97ab'],
  ['Cohere', { 'x-debug-trace-id': '2023090402' }, '2023090402'],
  ['a server behind Cloudflare', { 'cf-ray': '8a1b2c3d4e5f-FRA' }, '8a1b2c3d4e5f-FRA'],
  ['one of 128 characters', { 'x-request-id': 'a'.repeat(128) }, 'a'.repeat(128)],
  ['a longer one', { 'x-request-id': 'a'.repeat(129) }, undefined],
  ['one that looks unusual, and another', { 'x-request-id': 'a "b"', 'request-id': 'good' }, 'good'],
  ['several', { 'request-id': ['one', 'two'] as never }, undefined],
  ['one beyond ASCII', { 'x-request-id': 'é' }, undefined],
  ['an empty one', { 'x-request-id': '' }, undefined],
  ['none', { 'content-type': 'application/json' }, undefined],
])('the request id of %s', (_, headers, id) => {
  expect(requestIdOf(headers)).toBe(id)
})
