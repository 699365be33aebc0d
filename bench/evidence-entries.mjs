// Builds bills and receipts as the chat pipeline does, for benches that write them without sending requests.
import { hash } from 'node:crypto'

const TENANT = '5f43a1c2d4e5f60718293a4b'

/** @param {string} requestId */
export const usageRow = (requestId, tenantId = TENANT) => ({
  request_id: requestId,
  tenant_id: tenantId,
  api_key_id: '5f43a1c2d4e5f60718293a4c',
  user_id: '5f43a1c2d4e5f60718293a4d',
  created_at: new Date().toISOString(),
  route: '/api/external/chat/completions',
  streamed: 0,
  requested_model: 'mock/mock-model',
  served_model: 'mock/mock-model',
  index_used: 'Zero-Knowledge',
  outcome: 'complete',
  native_finish_reason: 'stop',
  input_tokens: 321,
  output_tokens: 123,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
  reasoning_tokens: 0,
  tokens_estimated: 0,
  attempts: 1,
  latency_ms: 640,
  first_token_ms: null,
  billing_mode: 'user-completions',
  billing_period: '2026-11',
  cost_nanos: 0,
  points: 0,
  price_missing: 0,
})

const QUESTION = JSON.stringify({ model: 'mock-model', messages: [{ role: 'user', content: 'word '.repeat(360) }] })
const ANSWER = JSON.stringify({ choices: [{ message: { role: 'assistant', content: 'word '.repeat(200) } }] })
const KEY = '5f43a1c2d4e5f60718293a4c'

/** Returns a function that creates the receipt of a request as the chat pipeline does. */
export function entryMaker({ entitle, toRequestEntry, newBundleId, systemClock, policy }) {
  const { id, name, document } = policy
  const applied = { canonical: id, name, document, hash: policy.hash, source: 'system_default' }
  return (usage) => {
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
      requestId: usage.request_id,
      endpoint: 'POST /api/external/chat/completions',
      operation: 'chat.completion',
      tenantId: usage.tenant_id,
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
        cost: { mode: 'user-completions', nanos: 0, points: 0 },
        firstTokenMs: 640,
      },
    })
  }
}
