// Builds receipts as the gateway does, for benches that write them without sending requests.
import { hash } from 'node:crypto'

const TENANT = '5f43a1c2d4e5f60718293a4b'

/** A row without evidence, for comparison. @param {string} requestId */
export const plainRow = (requestId, tenantId = TENANT) => ({
  id: requestId,
  tenant_id: tenantId,
  created_at: new Date().toISOString(),
  request_id: requestId,
  trace_id: requestId,
  api_key_id: '5f43a1c2d4e5f60718293a4c',
  user_id: '5f43a1c2d4e5f60718293a4d',
  endpoint: '/api/external/chat/completions',
  model: 'mock/mock-model',
  kind: 'dlp',
  rule_id: 'rule',
  rule_name: 'Rule',
  category: 'custom',
  types: '{}',
  match_count: 1,
  severity: 'low',
  direction: 'input',
  action: 'log',
  enforced: 1,
  risk_score: null,
  policy: 'internal',
})

const QUESTION = JSON.stringify({ model: 'mock-model', messages: [{ role: 'user', content: 'word '.repeat(360) }] })
const ANSWER = JSON.stringify({ choices: [{ message: { role: 'assistant', content: 'word '.repeat(200) } }] })
const KEY = '5f43a1c2d4e5f60718293a4c'

/** Returns a function that creates the receipt of a request as the gateway does. */
export function entryMaker({ entitle, toRequestEntry, newBundleId, systemClock, policy }) {
  const { id, name, document } = policy
  const applied = { canonical: id, name, document, hash: policy.hash, source: 'system_default' }
  return (requestId, tenantId = TENANT) => {
    const nowMs = Date.now()
    const bundleId = newBundleId(nowMs)
    const entitlements = []
    const terms = {
      jti: `${bundleId}/0`,
      keyId: KEY,
      modelId: 'mock/mock-model',
      model: 'mock-model',
      policyHash: policy.hash,
      enforced: true,
      isAccepted: () => true,
    }
    entitle(terms, systemClock, (made) => entitlements.push(made))('mock-model', QUESTION)('mock-model', QUESTION)
    const inspectors = { canary: false, dlp: true, pii: true, policy: true, prompt_shield: false }
    const facts = {
      bundleId,
      requestId,
      endpoint: 'POST /api/external/chat/completions',
      operation: 'chat.completion',
      tenantId,
      keyId: KEY,
      userId: '5f43a1c2d4e5f60718293a4d',
      payerId: '5f43a1c2d4e5f60718293a4d',
      startedAtMs: nowMs,
      requestSha256: hash('sha256', QUESTION, 'hex'),
      requestedModel: 'mock/mock-model',
      index: 'Zero-Knowledge',
      streamed: false,
      policy: applied,
      inspectors,
      incidents: [],
      documentsRetrieved: 0,
      attempts: [{ model: 'mock/mock-model', status: 'served', latency_ms: 640 }],
      entitlements,
      heads: [],
    }
    return toRequestEntry(facts, {
      atMs: nowMs,
      latencyMs: 640,
      result: 'success',
      status: 200,
      error: undefined,
      responseSha256: hash('sha256', ANSWER, 'hex'),
      answered: {
        outcome: 'complete',
        model: 'mock/mock-model',
        usage: {
          inputTokens: 321,
          outputTokens: 123,
          cacheReadTokens: 0,
          cacheWriteTokens: 0,
          reasoningTokens: 0,
          estimated: false,
        },
        cost: {
          mode: 'user-completions',
          period: new Date().toISOString().slice(0, 7),
          nanos: 0,
          points: 0,
          isPriceKnown: true,
        },
        firstTokenMs: 640,
      },
    })
  }
}
