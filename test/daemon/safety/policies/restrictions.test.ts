import { describe, expect, test } from 'vitest'
import type { CallLocation } from '../../../../src/daemon/models/provider.ts'
import type { Destination } from '../../../../src/daemon/safety/policies/policies.ts'
import { violationsOf } from '../../../../src/daemon/safety/policies/restrictions.ts'
import { PolicyDocument, type PolicyDocumentInput } from '../../../../src/shared/wire/policies.ts'

const OUTSIDE: CallLocation = { host: 'api.openai.com', region: undefined }
const IN_EUROPE: CallLocation = { host: 'eu.example.com', region: 'eu-west-1' }

const rulesBroken = (document: PolicyDocumentInput, ...chain: Destination[]) =>
  violationsOf(PolicyDocument.parse(document), chain).map(({ modelId, rule }) => `${modelId} ${rule}`)

type Case = [document: PolicyDocumentInput, modelId: string, location: CallLocation, rule: string | undefined]

const CASES: Case[] = [
  [{}, 'openai/gpt-4o', OUTSIDE, undefined],
  [{ deniedModels: ['openai/gpt-4o'] }, 'openai/gpt-4o', OUTSIDE, 'deniedModels'],
  [{ deniedModels: ['openai/gpt-4o'] }, 'openai/GPT-4o', OUTSIDE, 'deniedModels'],
  [{ deniedModels: ['openai/gpt-4o'] }, 'openai/gpt-4o-mini', OUTSIDE, undefined],
  [{ deniedModels: ['openai/gpt-4o'] }, 'openai/./gpt-4o', OUTSIDE, 'deniedModels'],
  [{ deniedModels: ['openai/gpt-4o'] }, 'openai//gpt-4o', OUTSIDE, 'deniedModels'],
  [{ deniedModels: ['openai/gpt-4o'] }, 'openai/gpt-4o\u200b', OUTSIDE, 'deniedModels'],
  [{ deniedModels: ['mistral/*'] }, 'openai/gpt-4o\u00ad', OUTSIDE, 'deniedModels'],
  [{ deniedModels: ['ollama/llama3'] }, 'ollama/llama3:latest', OUTSIDE, 'deniedModels'],
  [{ deniedModels: ['ollama/llama3:latest'] }, 'ollama/llama3', OUTSIDE, 'deniedModels'],
  [{ deniedModels: ['google/gemini-2.5-pro'] }, 'google/models/gemini-2.5-pro', OUTSIDE, 'deniedModels'],
  [{ deniedModels: ['google/models/gemini-2.5-pro'] }, 'google/gemini-2.5-pro', OUTSIDE, 'deniedModels'],
  [{ deniedModels: ['google/models'] }, 'google/gemini-2.5-pro', OUTSIDE, undefined],
  [{ deniedModels: ['bedrock/anthropic.claude-x'] }, 'bedrock/us.anthropic.claude-x', OUTSIDE, 'deniedModels'],
  [{ deniedModels: ['bedrock/us.anthropic.claude-x'] }, 'bedrock/us.anthropic.claude-x', OUTSIDE, 'deniedModels'],
  [{ deniedModels: ['bedrock/us.anthropic.claude-x'] }, 'bedrock/eu.anthropic.claude-x', OUTSIDE, undefined],
  [
    { deniedModels: ['bedrock/anthropic.claude-x'] },
    'bedrock/arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-x',
    OUTSIDE,
    'deniedModels',
  ],
  [{ deniedModels: ['openai/*'] }, 'openai/gpt-4o', OUTSIDE, 'deniedModels'],
  [{ deniedModels: ['open/*'] }, 'openai/gpt-4o', OUTSIDE, undefined],
  [{ deniedModels: ['local/*'] }, 'local/extract', 'here', 'deniedModels'],
  [{ allowedModels: ['openai/gpt-4o'] }, 'openai/gpt-4o', OUTSIDE, undefined],
  [{ allowedModels: ['openai/gpt-4o'] }, 'openai/GPT-4O', OUTSIDE, 'allowedModels'],
  [{ allowedModels: ['openai/*'] }, 'mistral/large', OUTSIDE, 'allowedModels'],
  [{ allowedModels: ['openai/*'], deniedModels: ['openai/gpt-4o'] }, 'openai/gpt-4o', OUTSIDE, 'deniedModels'],
  [{ allowedProviders: ['openai'] }, 'openai/meta/llama', OUTSIDE, undefined],
  [{ allowedProviders: ['openai'] }, 'mistral/large', OUTSIDE, 'allowedProviders'],
  [{ residency: { allowedRegions: ['eu'] } }, 'openai/gpt-4o', OUTSIDE, 'residency.onUnknown'],
  [{ residency: { allowedRegions: ['eu'], onUnknown: 'allow' } }, 'openai/gpt-4o', OUTSIDE, undefined],
  [{ residency: { allowedRegions: ['eu'] } }, 'a/b', IN_EUROPE, undefined],
  [{ residency: { allowedRegions: ['eu-west-1'] } }, 'a/b', IN_EUROPE, undefined],
  [{ residency: { allowedRegions: ['eu-west'] } }, 'a/b', IN_EUROPE, undefined],
  [{ residency: { allowedRegions: ['e'] } }, 'a/b', IN_EUROPE, 'residency.allowedRegions'],
  [{ residency: { allowedRegions: ['eu-west-1'] } }, 'a/b', { ...IN_EUROPE, region: 'eu' }, 'residency.allowedRegions'],
  [{ residency: { allowedRegions: ['us', 'eu-central-1'] } }, 'a/b', IN_EUROPE, 'residency.allowedRegions'],
  [{ residency: { allowedRegions: ['eu'] } }, 'local/extract', 'here', undefined],
  [{ egress: { denyHosts: ['api.openai.com'] } }, 'openai/gpt-4o', OUTSIDE, 'egress.denyHosts'],
  [{ egress: { denyHosts: ['*.openai.com'] } }, 'openai/gpt-4o', OUTSIDE, 'egress.denyHosts'],
  [{ egress: { denyHosts: ['openai.com'] } }, 'openai/gpt-4o', OUTSIDE, undefined],
  [{ egress: { denyHosts: ['*.api.openai.com'] } }, 'openai/gpt-4o', OUTSIDE, undefined],
  [{ egress: { allowHosts: ['api.openai.com'] } }, 'openai/gpt-4o', OUTSIDE, undefined],
  [{ egress: { allowHosts: ['*.example.com'] } }, 'openai/gpt-4o', OUTSIDE, 'egress.allowHosts'],
  [{ egress: { allowHosts: ['*.com'], denyHosts: ['api.openai.com'] } }, 'openai/gpt-4o', OUTSIDE, 'egress.denyHosts'],
  [{ egress: { allowHosts: ['nowhere.example'] } }, 'local/extract', 'here', undefined],
]

describe('the violations of a policy by a model', () => {
  test.each(CASES)('%o, checked for %s at %o: %s', (document, modelId, location, rule) => {
    expect(rulesBroken(document, { modelId, location })).toEqual(rule === undefined ? [] : [`${modelId} ${rule}`])
  })

  test('are found for every model of a chain, at any position', () => {
    const chain = ['openai/a', 'mistral/b', 'openai/c'].map((modelId) => ({ modelId, location: OUTSIDE }))
    expect(rulesBroken({ deniedModels: ['openai/*'] }, ...chain)).toEqual([
      'openai/a deniedModels',
      'openai/c deniedModels',
    ])
  })

  test('do not depend on the mode', () => {
    const chain = [{ modelId: 'openai/a', location: OUTSIDE }]
    expect(rulesBroken({ mode: 'monitor', deniedModels: ['openai/a'] }, ...chain)).toEqual(['openai/a deniedModels'])
  })
})
