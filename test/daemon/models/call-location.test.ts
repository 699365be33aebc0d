import { expect, test } from 'vitest'
import { locationsOf } from '../../../src/daemon/models/call-location.ts'
import type { BedrockConfig, EndpointConfig, VertexConfig } from '../../../src/daemon/models/config.ts'

const endpoint = (given: Partial<EndpointConfig> = {}): EndpointConfig => ({
  name: 'p',
  kind: 'openai',
  baseUrl: 'https://API.example.com:8443/v1',
  apiKey: undefined,
  headers: {},
  models: undefined,
  ...given,
})
const bedrock = (given: Partial<BedrockConfig> = {}): BedrockConfig => ({
  name: 'bedrock',
  kind: 'bedrock',
  region: 'eu-central-1',
  baseUrl: undefined,
  apiKey: undefined,
  headers: {},
  models: undefined,
  credentials: undefined,
  ...given,
})

const vertex = (given: Partial<VertexConfig> = {}): VertexConfig => ({
  name: 'vertex',
  kind: 'vertex',
  publisher: 'google',
  project: 'p',
  location: 'europe-west4',
  baseUrl: undefined,
  headers: {},
  models: undefined,
  credentials: undefined,
  ...given,
})

test.each<[Partial<VertexConfig>, object]>([
  [{}, { host: 'europe-west4-aiplatform.googleapis.com', region: 'europe-west4' }],
  [{ location: 'eu' }, { host: 'aiplatform.eu.rep.googleapis.com', region: 'eu' }],
  [{ location: 'global' }, { host: 'aiplatform.googleapis.com', region: undefined }],
  [
    { location: 'global', region: 'EU' },
    { host: 'aiplatform.googleapis.com', region: 'eu' },
  ],
  [{ baseUrl: 'https://proxy.example/v1' }, { host: 'proxy.example', region: 'europe-west4' }],
])('Vertex AI with %j is located at its location', (given, location) => {
  expect(locationsOf(vertex(given))('gemini-2.5-pro')).toEqual(location)
})

test('a provider is located by its address, in its configured region', () => {
  expect(locationsOf(endpoint())('m')).toEqual({ host: 'api.example.com', region: undefined })
  expect(locationsOf(endpoint({ region: 'eu' }))('m')).toEqual({ host: 'api.example.com', region: 'eu' })
})

test('built-in providers send nothing out', () => {
  expect(locationsOf(endpoint({ kind: 'local' }))('extract')).toBe('here')
})

const ARN = 'arn:aws:bedrock:eu-central-1:123456789012'

test.each([
  ['anthropic.claude-3-haiku-20240307-v1:0', 'eu-central-1'],
  ['eu.anthropic.claude-sonnet-4-20250514-v1:0', 'eu'],
  ['us.anthropic.claude-sonnet-4-20250514-v1:0', 'us'],
  ['us-gov.anthropic.claude-3-haiku-20240307-v1:0', 'us-gov'],
  ['apac.anthropic.claude-sonnet-4-20250514-v1:0', 'ap'],
  ['global.anthropic.claude-sonnet-4-20250514-v1:0', undefined],
  [`${ARN}:inference-profile/us.anthropic.claude-sonnet-4-20250514-v1:0`, 'us'],
  [`${ARN}:application-inference-profile/abcdef123456`, undefined],
  ['arn:aws:bedrock:eu-central-1::foundation-model/amazon.nova-pro-v1:0', 'eu-central-1'],
])('Bedrock runs on %s in %s', (model, region) => {
  expect(locationsOf(bedrock())(model)).toEqual({ host: 'bedrock-runtime.eu-central-1.amazonaws.com', region })
})

test('Bedrock behind a custom address is at that address', () => {
  expect(locationsOf(bedrock({ baseUrl: 'https://vpce.example.com' }))('amazon.nova-pro-v1:0')).toEqual({
    host: 'vpce.example.com',
    region: 'eu-central-1',
  })
})
