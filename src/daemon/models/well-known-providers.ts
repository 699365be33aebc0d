import type { EndpointConfig, ProviderKind } from './config.ts'
import { type FamilyMember, OPENAI_FAMILY } from './openai-family.ts'

/** A provider with a public address. To configure it, only its name and a key are needed. */
export type WellKnownProvider = Pick<
  FamilyMember,
  'baseUrl' | 'keyVariables' | 'baseUrlVariable' | 'apiVersionVariable' | 'isLocal' | 'isDiscovered'
> & { kind: Exclude<EndpointConfig['kind'], 'local'> }

export const WELL_KNOWN_PROVIDERS: Readonly<Record<string, WellKnownProvider>> = {
  ...Object.fromEntries(
    Object.entries(OPENAI_FAMILY).map(([name, { kind = 'openai', ...member }]) => [name, { ...member, kind }]),
  ),
  anthropic: {
    kind: 'anthropic',
    baseUrl: 'https://api.anthropic.com',
    keyVariables: ['ANTHROPIC_API_KEY'],
    baseUrlVariable: 'ANTHROPIC_BASE_URL',
  },
  google: {
    kind: 'google',
    baseUrl: 'https://generativelanguage.googleapis.com',
    keyVariables: ['GOOGLE_API_KEY', 'GEMINI_API_KEY'],
    baseUrlVariable: 'GOOGLE_GEMINI_BASE_URL',
  },
  cohere: { kind: 'cohere', baseUrl: 'https://api.cohere.com', keyVariables: ['COHERE_API_KEY', 'CO_API_KEY'] },
}

/** Provider kinds that need an address and may need a key. */
export const ENDPOINT_KINDS = [
  'openai',
  'azure',
  'anthropic',
  'google',
  'cohere',
] as const satisfies EndpointConfig['kind'][]

/** The allowed values of `kind` in a provider entry. */
export const KINDS: readonly ProviderKind[] = [...ENDPOINT_KINDS, 'bedrock', 'vertex']
