import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Busboy } from '@fastify/busboy'

export const KEY = `sk-${'a1'.repeat(32)}`

export type Received = {
  method: string
  path: string
  headers: IncomingMessage['headers']
  body: Buffer
  /** The JSON of the body; undefined when it is none. */
  json: unknown
}

export type Script = (request: Received, response: ServerResponse) => void | Promise<void>

export type FakeGateway = {
  url: string
  requests: Received[]
  /** Answers the next requests to this route, e.g. `GET /api/external/whoami`; the last script stays. */
  on(route: string, ...scripts: Script[]): void
  close(): Promise<void>
}

export const json =
  (status: number, body: unknown, headers: Record<string, string> = {}): Script =>
  (_, response) => {
    response.writeHead(status, { 'content-type': 'application/json', 'x-request-id': 'req-fake', ...headers })
    response.end(JSON.stringify(body))
  }

export const flatError = (status: number, error: string, message: string, extra: object = {}): Script =>
  json(status, { success: false, error, message, request_id: 'req-fake', ...extra })

export const structuredError = (status: number, code: string, message: string): Script =>
  json(status, { success: false, error: { code, message }, request_id: 'req-fake' })

export const WHOAMI = {
  success: true,
  user: { id: 'b'.repeat(24), name: 'admin', email: 'admin@localhost', role: 'admin' },
  tenant: { id: 'c'.repeat(24), name: 'default' },
  api_key: { id: 'd'.repeat(24), name: 'bootstrap', operator: true },
}

export const indexNamed = (name: string, description = '') => ({
  id: '1'.repeat(24),
  name,
  description,
  type: 'general',
  isActive: true,
  documentCount: 3,
  createdAt: '2026-01-01T00:00:00.000Z',
  updatedAt: '2026-01-01T00:00:00.000Z',
})

const SINCE = { createdAt: '2026-01-01T00:00:00.000Z', updatedAt: '2026-01-01T00:00:00.000Z' }
/** One entry of the log. */
export const logOf = (more: object = {}) => ({
  id: 'jti-1',
  timestamp: SINCE.createdAt,
  type: 'api_access',
  severity: 'info',
  description: 'External API: answered chat with "local/extract"',
  user: { id: 'e'.repeat(24), name: 'Ada', email: 'ada@example.com' },
  metadata: { endpoint: 'POST /api/external/chat/completions', requestId: 'req-1', bundleId: 'jti-1', status: 200 },
  complianceCategory: 'data_protection',
  outcome: 'success',
  resourceType: 'model',
  resourceId: 'local/extract',
  ...more,
})

/** One page of the log, with everything on it, and the position behind it. */
export const logPage = (logs: object[], total = logs.length): Script =>
  json(200, {
    success: true,
    data: {
      logs,
      pagination: { page: 1, limit: 100, total, pages: Math.ceil(total / 100) },
      summary: {},
      position: 'p',
    },
  })

const MEMBER = { id: 'e'.repeat(24), name: 'Ada', email: 'ada@example.com' }

export const groupNamed = (name: string, more: object = {}) => ({
  id: '3'.repeat(24),
  name,
  description: 'Tier 1',
  status: 'Active',
  userCount: 1,
  users: [MEMBER],
  ...SINCE,
  ...more,
})

export const roleNamed = (name: string, more: object = {}) => ({
  id: '4'.repeat(24),
  name,
  displayName: 'Auditor',
  description: 'Reads along',
  isSystem: false,
  hasAdminPanelAccess: true,
  permissions: [{ section: 'analytics', level: 'reader' }],
  canInteractWithAI: true,
  canUseChat: true,
  userCount: 0,
  createdBy: MEMBER,
  ...SINCE,
  ...more,
})

export const userNamed = (name: string, more: object = {}) => ({
  id: 'e'.repeat(24),
  name,
  username: name.toLowerCase(),
  email: `${name.toLowerCase()}@example.com`,
  role: 'user',
  license: 'Essential',
  usageByModel: { enabled: false, dollarLimit: null },
  status: 1,
  isVerified: false,
  setupCompleted: false,
  authType: 'basic',
  mfaEnabled: false,
  customRole: null,
  ...SINCE,
  lastActive: null,
  ...more,
})

export const keyNamed = (name: string, more: object = {}) => ({
  id: '5'.repeat(24),
  name,
  userId: WHOAMI.user.id,
  user: { id: WHOAMI.user.id, name: 'admin', email: 'admin@localhost' },
  status: 'active',
  isOperator: false,
  adminAccess: false,
  indexAccess: 'read',
  billingMode: 'user-completions',
  usageByModel: { enabled: false, dollarLimit: null },
  dailyLimit: 100,
  monthlyLimit: 10_000,
  rateLimit: { requestsPerMinute: 60, requestsPerHour: 1_000 },
  limits: {
    messages: null,
    contentBytes: null,
    bodyBytes: null,
    jsonDepth: null,
    tools: null,
    maxTokens: null,
    defaultMaxTokens: null,
  },
  allowedModels: [],
  allowedIndexes: [],
  allowedSMLTPPolicies: ['public', 'internal'],
  defaultSMLTPPolicy: null,
  allowedIPs: [],
  enablePromptShield: false,
  promptShieldSensitivity: 'balanced',
  promptShieldPolicyId: null,
  allowedPromptShieldPolicies: [],
  allowPromptShieldOptOut: false,
  failoverDefaults: null,
  cacheAnswers: false,
  ...SINCE,
  expiresAt: null,
  revokedAt: null,
  lastUsedAt: null,
  ...more,
})

const POLICY_DOCUMENT = {
  version: 1,
  mode: 'enforce',
  allowedModels: [],
  deniedModels: ['openai/gpt-4o'],
  residency: { allowedRegions: [], onUnknown: 'deny' },
  pii: { enabled: true, entities: 'default', action: 'mask', direction: 'both' },
  dlp: { enabled: false, rules: 'default', action: 'log', direction: 'both' },
  retentionDays: null,
}

export const policyNamed = (name: string, more: object = {}) => ({
  id: name.toLowerCase().replaceAll(' ', '-'),
  name,
  description: 'About us',
  type: 'custom',
  isActive: false,
  policyHash: '0'.repeat(64),
  ...SINCE,
  policy: POLICY_DOCUMENT,
  ...more,
})

export const shieldPolicyNamed = (name: string, more: object = {}) => ({
  id: name.toLowerCase().replaceAll(' ', '-'),
  name,
  description: 'About us',
  type: 'custom',
  ...SINCE,
  policy: { sensitivity: 'strict', mode: 'blocking', layers: ['regex'], thresholds: null, categories: {} },
  ...more,
})

export const ruleNamed = (name: string, more: object = {}) => ({
  id: name.toLowerCase().replaceAll(' ', '-'),
  name,
  kind: 'dlp',
  detector: 'keywords',
  description: '',
  pattern: null,
  words: ['Falcon'],
  caseSensitive: false,
  maxChars: 256,
  validator: null,
  severity: 'medium',
  direction: 'both',
  action: 'mask',
  enabled: true,
  simulate: false,
  ...SINCE,
  ...more,
})

export const incidentOf = (more: object = {}) => ({
  id: '9'.repeat(24),
  createdAt: SINCE.createdAt,
  requestId: 'req-1',
  traceId: 'trx-1',
  apiKeyId: '5'.repeat(24),
  userId: 'e'.repeat(24),
  endpoint: '/api/external/chat/completions',
  model: null,
  kind: 'pii',
  ruleId: 'policy:pii',
  ruleName: 'PII',
  category: 'personal_data',
  types: { EMAIL: 2 },
  count: 2,
  severity: 'medium',
  direction: 'input',
  action: 'mask',
  enforced: true,
  riskScore: null,
  policy: 'internal',
  ...more,
})

/** What POST /policy-check answers. */
export const policyChecks = (more: object = {}) => ({
  success: true,
  dry_run: true,
  allowed: true,
  checks: {
    input: { passed: true },
    model_access: { passed: true },
    content: {
      passed: true,
      would_block: false,
      findings: [{ kind: 'pii', rule: 'PII', types: { EMAIL: 2 }, action: 'mask', enforced: true }],
    },
    prompt_shield_scan: { skipped: true },
  },
  plan: { models: ['local/extract'], failover_engine: false },
  ...more,
})

/** What POST /prompt-shield/scan answers. */
export const shieldScan = (more: object = {}) => ({
  success: true,
  riskScore: 3,
  verdict: 'ALLOW',
  attackCategory: null,
  confidence: 0.9,
  categoryLabel: null,
  severity: 'low',
  recommendation: 'Nothing to do.',
  traceId: 'trx-1',
  latencyMs: 0.4,
  details: [],
  ...more,
})

export const shieldExplanation = (text: string) => {
  const finding = { layer: 'regex', pattern: text, category: text, confidence: 0.9, matched: text }
  const place = { start: 0, end: text.length, hiddenBy: null, text, words: 2 }
  return {
    source: 'user',
    pieces: [{ ...place, riskScore: 3, probability: 0.1, decides: true, findings: [finding] }],
    omittedPieces: 0,
    findings: [],
    calibration: { pieces: 1, scoreAsOnePiece: 3 },
    builtInScore: 3,
  }
}

/** The secret of every key that the fake gateway makes. */
export const SECRET = `sk-${'b2'.repeat(32)}`

export const tenantNamed = (name: string, more: object = {}) => ({
  id: '6'.repeat(24),
  name,
  status: 'Active',
  userCount: 1,
  ...SINCE,
  ...more,
})

export const webhookAt = (url: string, more: object = {}) => ({
  id: '7'.repeat(24),
  url,
  description: '',
  events: ['*'],
  enabled: true,
  disabledReason: null,
  failureCount: 0,
  previousSecretUntil: null,
  lastDeliveryAt: null,
  lastStatus: null,
  heldDeliveries: 0,
  heldDropped: 0,
  ...SINCE,
  ...more,
})

/** The signing secret of every endpoint that the fake gateway makes. */
export const SIGNING_SECRET = `whsec_${'c3'.repeat(16)}`

export const DELIVERY_ID = '01234567-89ab-cdef-0123-456789abcdef'

export const deliveryOf = (more: object = {}) => ({
  id: DELIVERY_ID,
  webhookId: '7'.repeat(24),
  eventId: `evt_${'8'.repeat(24)}`,
  eventType: 'pii:incident',
  state: 'delivered',
  attempts: 1,
  nextAttemptAt: null,
  deliveredAt: SINCE.createdAt,
  lastStatus: 200,
  lastError: null,
  lastDurationMs: 12,
  resendOf: null,
  isTest: false,
  createdAt: SINCE.createdAt,
  ...more,
})

/** As its own route has it. */
export const deliveryDetails = (more: object = {}) => ({
  ...deliveryOf(),
  lastResponse: 'ok',
  event: eventOf('pii:incident'),
  ...more,
})

export const eventOf = (type: string, id = `evt_${'8'.repeat(24)}`) => ({
  id,
  type,
  created: 1_767_225_600,
  data: { incidentId: 'e'.repeat(24), count: 3 },
})

/** Frames of the feed of events; the connection ends after them unless `open`. */
export const feed =
  (frames: object[], { open = false } = {}): Script =>
  (_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'x-request-id': 'req-fake' })
    response.write(frames.map((frame) => `data: ${JSON.stringify(frame)}\n\n`).join(''))
    if (!open) response.end()
  }
export const readyFrame = (cursor = SINCE.createdAt) => ({ type: 'ready', data: { cursor } })
export const eventFrame = (event: object, cursor = SINCE.createdAt) => ({ type: 'event', data: { cursor, event } })

export const USAGE = {
  points: { remaining: null, monthly_limit: null, next_renewal: '2026-02-01T00:00:00.000Z' },
  usage_by_model: { enabled: false },
  api_key: {
    name: 'bootstrap',
    billing_mode: 'user-completions',
    daily: { used: 3, limit: 100, remaining: 97 },
    monthly: { used: 40, limit: null, remaining: null },
    rate_limit: { requests_per_minute: 60, requests_per_hour: null },
    expires_at: null,
  },
}

export const modelList = (ids: string[]): Script =>
  json(200, {
    success: true,
    models: ids.map((id) => ({ id, name: id, provider: id.slice(0, id.indexOf('/')) })),
    user_license: 'Ultra',
    restrictions: { allowed_models: 'all' },
    filters: { provider: null },
  })

/** One page of an administrator's list, with everything on it. */
export const listOf = (itemsKey: string, items: object[]): Script =>
  json(200, {
    success: true,
    [itemsKey]: items,
    pagination: { page: 1, limit: 50, total: items.length, pages: items.length === 0 ? 0 : 1 },
  })

export const METADATA = {
  conversation_id: 'conv-1',
  index_used: 'handbook',
  smltp_policy_used: 'internal',
  smltp_policy_source: 'default',
  smltp_policy_hash: null,
  prompt_shield_policy: null,
  served_model: 'local/extract',
  requested_model: 'local/extract',
  rag_enabled: true,
  documents_retrieved: 2,
  sources: [{ source: 'leave.md', score: 0.91 }],
}

export const envelope = (content: string) => ({
  success: true,
  id: 'req-1',
  object: 'chat.completion',
  created: 1_767_225_600,
  model: 'local/extract',
  choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 412, completion_tokens: 38, total_tokens: 450, input_tokens: 412, output_tokens: 38 },
  metadata: METADATA,
})

const { choices: _, usage: __, ...HEAD } = envelope('')
export const metadataFrame = (metadata: object = METADATA) => ({ type: 'metadata', data: { ...HEAD, metadata } })
export const chunkFrame = (content: string, finish_reason: string | null = null) => ({
  type: 'chunk',
  data: {
    id: 'req-1',
    object: 'chat.completion.chunk',
    model: 'local/extract',
    choices: [{ index: 0, delta: { content }, finish_reason }],
  },
})
export const USAGE_FRAME = {
  type: 'usage',
  data: { usage: { prompt_tokens: 412, completion_tokens: 38, total_tokens: 450 } },
}
export const ERROR_FRAME = {
  type: 'error',
  data: { error: 'PROVIDER_INTERRUPTED', message: 'the provider hung up', reason: 'server_error', request_id: 'req-9' },
}

export const toEvents = (frames: unknown[], { done = true } = {}): string =>
  frames.map((frame) => `data: ${JSON.stringify(frame)}\n\n`).join('') + (done ? 'data: [DONE]\n\n' : '')

/** A stream that is sent at once and closed in order; whether it is complete is up to its text. */
export const stream =
  (events: string): Script =>
  (__, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'x-request-id': 'req-fake' })
    response.end(events)
  }

/** Streams the text as one chunk, or answers with the envelope, as the request asks. */
export const answer =
  (content: string): Script =>
  (request, response) => {
    const script =
      Reflect.get(Object(request.json), 'stream') === true
        ? stream(toEvents([metadataFrame(), chunkFrame(content), chunkFrame('', 'stop'), USAGE_FRAME]))
        : json(200, envelope(content))
    return script(request, response)
  }

const trained: Script = async (request, response) => {
  const files = await readMultipart(request)
  const documents = files.map(({ name }) => ({ name, status: 'indexed', chunks: 2 }))
  return json(200, trainResult(documents))(request, response)
}

export const trainResult = (documents: object[]) => ({
  success: true,
  message: 'Trained',
  request_id: 'req-fake',
  results: {
    files_processed: documents.length,
    documents_extracted: documents.length,
    documents_indexed: documents.length,
    total_vectors: 0,
    total_chunks: documents.length * 2,
    index_name: 'handbook',
    namespace: 'handbook',
    documents,
  },
})

export const searchResult = (matches: object[]) => ({
  success: true,
  request_id: 'req-fake',
  query: 'q',
  results: { matches, total: matches.length, top_k: 10 },
  index: { name: 'handbook', namespace: 'handbook' },
})

export const DOCUMENT = {
  id: '2'.repeat(24),
  name: 'leave.md',
  title: 'Leave',
  chunks: 3,
  createdAt: SINCE.createdAt,
}

export const MATCH = {
  rank: 1,
  score: 0.91,
  source: 'leave.md',
  content: 'You have 28 days.\nUnused days\tcarry over.',
  metadata: { page: null, chunkIndex: 0, title: null, documentId: '2'.repeat(24) },
}

const GROUP = `/api/external/groups/${'3'.repeat(24)}`
const ROLE = `/api/external/roles/${'4'.repeat(24)}`

const USER = `/api/external/users/${'e'.repeat(24)}`
const INDEX = `/api/external/indexes/${'1'.repeat(24)}`
const API_KEY = `/api/admin/api-keys/${'5'.repeat(24)}`
const TENANT = `/api/admin/tenants/${'6'.repeat(24)}`
const WEBHOOK = `/api/admin/webhooks/${'7'.repeat(24)}`
const DELIVERY = `/api/admin/deliveries/${DELIVERY_ID}`
const POLICY = '/api/external/smltp-policies/ours'
const SHIELD_POLICY = '/api/admin/prompt-shield-policies/ours'
const RULE = '/api/admin/guard-rules/ours'
const PROVIDER = '/api/admin/providers/house'
const INCIDENT = `/api/admin/incidents/${'9'.repeat(24)}`
const HOOK = webhookAt('https://example.com/hook')

const providerNamed = (name: string) => ({
  ...{ id: name, name, source: 'store', inUse: true, problem: null, secrets: ['api_key'], kind: 'openai' },
  ...{ base_url: 'http://10.0.0.5:8000/v1', api_version: null, api: null, region: null, models: ['small'] },
  ...{ location: null, project: null, publisher: null, prices: null, timeouts: null },
  ...{ createdAt: SINCE.createdAt, updatedAt: SINCE.createdAt },
})

const changed = (status: number, more: object): Script => json(status, { success: true, message: '', ...more })

const DEFAULTS: Record<string, Script> = {
  'GET /api/external/models': modelList(['local/extract', 'openai/gpt-4o', 'mistral/*']),
  'GET /api/external/usage': json(200, { success: true, ...USAGE }),
  'POST /api/external/users': changed(201, { user: userNamed('Ada') }),
  'GET /api/external/users': listOf('users', [userNamed('Ada')]),
  [`GET ${USER}`]: json(200, { success: true, user: userNamed('Ada') }),
  [`PUT ${USER}`]: changed(200, { user: userNamed('Ada') }),
  [`DELETE ${USER}`]: changed(200, {}),
  'POST /api/admin/api-keys': changed(201, { apiKey: keyNamed('ci'), secret: SECRET }),
  'GET /api/admin/api-keys': listOf('apiKeys', [keyNamed('ci')]),
  [`GET ${API_KEY}`]: json(200, { success: true, apiKey: keyNamed('ci') }),
  [`PUT ${API_KEY}`]: changed(200, { apiKey: keyNamed('ci') }),
  [`POST ${API_KEY}/rotate`]: changed(200, { apiKey: keyNamed('ci'), secret: SECRET }),
  [`DELETE ${API_KEY}`]: changed(200, { apiKey: keyNamed('ci', { status: 'revoked' }) }),
  'POST /api/admin/tenants': changed(201, {
    tenant: tenantNamed('acme'),
    admin: userNamed('Ada', { role: 'admin' }),
    apiKey: keyNamed('administrator'),
    secret: SECRET,
  }),
  'GET /api/admin/tenants': listOf('tenants', [tenantNamed('acme')]),
  [`GET ${TENANT}`]: json(200, { success: true, tenant: tenantNamed('acme') }),
  [`PUT ${TENANT}`]: changed(200, { tenant: tenantNamed('acme', { status: 'Disabled' }) }),
  [`POST ${TENANT}/admin-key`]: json(201, {
    success: true,
    message: '',
    apiKey: keyNamed('administrator', { adminAccess: true }),
    secret: SECRET,
  }),
  'POST /api/admin/webhooks': changed(201, { webhook: HOOK, secret: SIGNING_SECRET }),
  'GET /api/admin/webhooks': json(200, { success: true, webhooks: [HOOK], events: [] }),
  [`GET ${WEBHOOK}`]: json(200, { success: true, webhook: HOOK }),
  [`PUT ${WEBHOOK}`]: json(200, { success: true, webhook: HOOK }),
  [`DELETE ${WEBHOOK}`]: changed(200, {}),
  [`POST ${WEBHOOK}/rotate-secret`]: changed(200, { webhook: HOOK, secret: SIGNING_SECRET }),
  [`POST ${WEBHOOK}/test`]: json(202, { success: true, delivery_id: DELIVERY_ID }),
  [`POST ${WEBHOOK}/recover`]: changed(200, { recovered: 3, more: false }),
  'GET /api/admin/deliveries': listOf('deliveries', [deliveryOf()]),
  [`GET ${DELIVERY}`]: json(200, { success: true, delivery: deliveryDetails() }),
  [`POST ${DELIVERY}/resend`]: json(202, { success: true, delivery_id: DELIVERY_ID }),
  'GET /api/admin/webhooks/recent-events': feed([readyFrame(), eventFrame(eventOf('pii:incident'))], { open: true }),
  'POST /api/admin/webhooks/trigger': json(202, {
    success: true,
    event: eventOf('pii:incident'),
    delivery_id: null,
  }),
  'GET /api/external/smltp-policies/all': json(200, {
    success: true,
    data: {
      builtInPolicies: [policyNamed('Internal', { type: 'built-in', isActive: true })],
      customPolicies: [policyNamed('Ours')],
      activePolicyTemplate: 'internal',
      summary: { totalPolicies: 2, builtInCount: 1, customCount: 1 },
    },
  }),
  'POST /api/external/smltp-policies': changed(201, { policy: policyNamed('Ours') }),
  [`GET ${POLICY}`]: json(200, { success: true, policy: policyNamed('Ours') }),
  [`PUT ${POLICY}`]: changed(200, { policy: policyNamed('Ours') }),
  [`DELETE ${POLICY}`]: changed(200, {}),
  [`POST ${POLICY}/activate`]: changed(200, { policy: policyNamed('Ours', { isActive: true }) }),
  'POST /api/external/smltp-policies/diff': json(200, {
    success: true,
    data: {
      from: { id: 'internal', policyHash: '1'.repeat(64) },
      to: { id: 'ours', policyHash: '0'.repeat(64) },
      equal: false,
      differences: [{ path: 'pii.action', from: 'log', to: 'mask' }],
    },
  }),
  'POST /api/external/policy-check': json(200, policyChecks()),
  'POST /api/external/prompt-shield/scan': json(200, shieldScan({ explanation: shieldExplanation('hi') })),
  'GET /api/admin/prompt-shield-policies': json(200, { success: true, policies: [shieldPolicyNamed('Ours')] }),
  'POST /api/admin/prompt-shield-policies': changed(201, { policy: shieldPolicyNamed('Ours') }),
  [`GET ${SHIELD_POLICY}`]: json(200, { success: true, policy: shieldPolicyNamed('Ours') }),
  [`PUT ${SHIELD_POLICY}`]: changed(200, { policy: shieldPolicyNamed('Ours') }),
  [`DELETE ${SHIELD_POLICY}`]: changed(200, {}),
  'GET /api/admin/guard-rules': json(200, { success: true, rules: [ruleNamed('Ours')] }),
  'POST /api/admin/guard-rules': changed(201, { rule: ruleNamed('Ours') }),
  'POST /api/admin/guard-rules/simulate': json(200, {
    success: true,
    results: [
      {
        sample: 0,
        findings: [{ ruleId: 'ours', type: 'ours', start: 0, end: 6, confidence: 1, action: 'mask' }],
      },
    ],
  }),
  [`GET ${RULE}`]: json(200, { success: true, rule: ruleNamed('Ours') }),
  [`PUT ${RULE}`]: changed(200, { rule: ruleNamed('Ours') }),
  [`DELETE ${RULE}`]: changed(200, {}),
  'POST /api/admin/config/reload': changed(200, { reload: { changed: ['providers.house'], needsRestart: ['listen'] } }),
  'GET /api/admin/providers': json(200, { success: true, providers: [providerNamed('house')] }),
  'POST /api/admin/providers': changed(201, { provider: providerNamed('house') }),
  [`GET ${PROVIDER}`]: json(200, { success: true, provider: providerNamed('house') }),
  [`PUT ${PROVIDER}`]: changed(200, { provider: providerNamed('house') }),
  [`DELETE ${PROVIDER}`]: changed(200, {}),
  [`POST ${PROVIDER}/test`]: json(200, {
    success: true,
    test: {
      provider: 'house',
      model: 'small',
      ok: true,
      latencyMs: 120,
      reason: null,
      message: 'house/small answered',
    },
  }),
  'GET /api/admin/cache': json(200, {
    success: true,
    cache: { enabled: true, ttlSeconds: 3600, entries: 2, bytes: 900, maxBytes: 67_108_864, oldestAt: SINCE.createdAt },
  }),
  'DELETE /api/admin/cache': json(200, { success: true, message: 'Answer cache cleared', deleted: 2 }),
  'GET /api/admin/incidents': listOf('incidents', [incidentOf()]),
  [`GET ${INCIDENT}`]: json(200, { success: true, incident: incidentOf() }),
  'GET /api/admin/incidents/counts': json(200, {
    success: true,
    total: 2,
    counts: [{ kind: 'pii', severity: 'medium', action: 'mask', enforced: true, count: 2 }],
  }),
  'GET /api/external/activity-logs': logPage([logOf()]),
  'POST /api/external/groups': json(201, { success: true, message: '', group: groupNamed('support') }),
  'GET /api/external/groups': listOf('groups', [groupNamed('support')]),
  [`GET ${GROUP}`]: json(200, { success: true, group: groupNamed('support') }),
  [`PUT ${GROUP}`]: json(200, { success: true, message: '', group: groupNamed('support') }),
  [`DELETE ${GROUP}`]: json(200, { success: true, message: '' }),
  'POST /api/external/roles': json(201, { success: true, message: '', role: roleNamed('auditor') }),
  'GET /api/external/roles': listOf('roles', [roleNamed('auditor')]),
  [`GET ${ROLE}`]: json(200, { success: true, role: roleNamed('auditor') }),
  [`PUT ${ROLE}`]: json(200, { success: true, message: '', role: roleNamed('auditor') }),
  [`DELETE ${ROLE}`]: json(200, { success: true, message: '' }),
  'GET /api/external/whoami': (request, response) =>
    request.headers.authorization === `Bearer ${KEY}`
      ? json(200, WHOAMI)(request, response)
      : flatError(401, 'Invalid API key', 'The API key is not valid.')(request, response),
  'GET /api/external/health': json(200, { success: true, status: 'healthy', timestamp: 'now', version: '1.1.0' }),
  'GET /livez': json(200, { status: 'ok' }),
  'GET /readyz': json(200, {
    status: 'ready',
    checks: { store: true, migrations: true, accepting: true, evidence: true },
  }),
  'POST /api/external/chat/completions': answer('You have 28 days.'),
  'POST /api/external/indexes': json(201, { success: true, message: 'Created', index: indexNamed('handbook') }),
  'GET /api/external/indexes/all': json(200, {
    success: true,
    indexes: [indexNamed('handbook', 'All about us'), indexNamed('faq')],
    pagination: { page: 1, limit: 50, total: 2, pages: 1 },
  }),
  [`GET ${INDEX}`]: json(200, { success: true, index: indexNamed('handbook') }),
  [`PUT ${INDEX}`]: changed(200, { index: indexNamed('handbook') }),
  [`DELETE ${INDEX}`]: changed(200, {}),
  [`POST ${INDEX}/rebuild`]: changed(200, { rebuilt: { documents: 3, passages: 9 } }),
  'GET /api/external/indexes/handbook/documents': listOf('documents', [DOCUMENT]),
  [`DELETE /api/external/indexes/handbook/documents/${DOCUMENT.id}`]: changed(200, {}),
  'POST /api/external/indexes/handbook/train': trained,
  'GET /api/external/indexes/handbook/search': json(200, searchResult([MATCH])),
}

/** Speaks the gateway's wire on a free loopback port; every route can be scripted. */
export async function startFakeGateway(): Promise<FakeGateway> {
  const scripts = new Map<string, Script[]>()
  const requests: Received[] = []
  const server: Server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    try {
      for await (const chunk of request) chunks.push(chunk)
    } catch {
      return // The client left while it was sending; the test looks at what came before.
    }
    const [path = ''] = (request.url ?? '').split('?')
    const body = Buffer.concat(chunks)
    const received = {
      method: request.method ?? '',
      path: request.url ?? '',
      headers: request.headers,
      body,
      json: parse(body),
    }
    requests.push(received)
    const route = `${request.method} ${path}`
    const queue = scripts.get(route) ?? []
    const script = (queue.length > 1 ? queue.shift() : queue[0]) ?? DEFAULTS[route]
    await (script ?? flatError(404, 'Not found', `There is no ${route}.`))(received, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    on: (route, ...list) => void scripts.set(route, list),
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    return undefined
  }
}

export type UploadedFile = { field: string; name: string; type: string; content: Buffer }

/** The file parts of a multipart request, read by the daemon's own parser. */
export function readMultipart({ headers, body }: Pick<Received, 'headers' | 'body'>): Promise<UploadedFile[]> {
  return new Promise((resolve, reject) => {
    const files: UploadedFile[] = []
    const contentType = headers['content-type'] ?? ''
    const parser = new Busboy({ headers: { 'content-type': contentType }, preservePath: true })
    parser.on('file', (field, content, name, _encoding, type) => {
      const chunks: Buffer[] = []
      content.on('data', (chunk: Buffer) => chunks.push(chunk))
      content.on('end', () => files.push({ field, name, type, content: Buffer.concat(chunks) }))
    })
    parser.on('finish', () => resolve(files))
    parser.on('error', reject)
    parser.end(body)
  })
}
