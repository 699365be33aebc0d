import type { RequestEnd, RequestFacts } from '../src/daemon/records/evidence/request-entry.ts'
import { findBuiltIn } from '../src/daemon/safety/policies/built-in.ts'
import { newBundleId, newId, newRequestId } from '../src/shared/ids.ts'
import { ENTITLEMENT_SECONDS } from '../src/shared/spec-limits.ts'

const policy = findBuiltIn('internal') as NonNullable<ReturnType<typeof findBuiltIn>>
const MODEL = 'anthropic/claude-sonnet-4-5-20250929'
const LATENCY_MS = 640

/** The facts of a usual request that ends at `atMs`, overridden by `fields`. */
export function requestFacts(atMs: number, fields: Partial<RequestFacts> = {}): RequestFacts {
  const bundleId = newBundleId(atMs)
  const [keyId, userId] = [newId(), newId()]
  const iat = Math.floor((atMs - LATENCY_MS) / 1000)
  return {
    ...{ bundleId, requestId: newRequestId(atMs), endpoint: 'POST /api/external/chat/completions' },
    ...{ operation: 'chat.completion', tenantId: newId(), keyId, userId, payerId: userId },
    ...{ startedAtMs: atMs - LATENCY_MS, requestSha256: 'ab'.repeat(32), requestedModel: MODEL },
    ...{ index: 'Zero-Knowledge', streamed: false, incidents: [], documentsRetrieved: 0, heads: [] },
    policy: { canonical: 'internal', source: 'system_default', hash: policy.hash, document: policy.document },
    inspectors: { canary: false, dlp: true, pii: true, policy: true, prompt_shield: false },
    attempts: [{ model: MODEL, status: 'served', latency_ms: LATENCY_MS }],
    entitlements: [
      {
        ...{ jti: `${bundleId}/0`, sub: keyId, iat, exp: iat + ENTITLEMENT_SECONDS, model: MODEL },
        ...{ policyHash: policy.hash, bodySha256: 'cd'.repeat(32), verdict: 'allowed' },
      },
    ],
    ...fields,
  }
}

/** The end of a request that was answered, overridden by `fields`. */
export const requestEnd = (atMs: number, fields: Partial<RequestEnd> = {}): RequestEnd => ({
  ...{ atMs, latencyMs: LATENCY_MS, result: 'success', status: 200, error: undefined },
  responseSha256: 'ef'.repeat(32),
  answered: {
    ...{ outcome: 'complete', model: MODEL, firstTokenMs: 600 },
    usage: {
      ...{ inputTokens: 321, outputTokens: 123, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 },
      estimated: false,
    },
    cost: {
      ...{ mode: 'user-completions', period: new Date(atMs).toISOString().slice(0, 7), nanos: 1, points: 2 },
      isPriceKnown: true,
    },
  },
  ...fields,
})
