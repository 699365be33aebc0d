import type { Db } from '../../../src/daemon/platform/db/db.ts'
import type { Access } from '../../../src/daemon/platform/http/route.ts'
import type { Section } from '../../../src/shared/permissions.ts'
import { addUser } from '../../accounts.ts'
import { MULTIPART, multipart } from '../../daemon/knowledge/ingest/multipart.ts'
import { addTarget, type Known, type World } from './world.ts'

/** A valid call of one route. */
export type RouteCall = {
  /** The required right. It is repeated here and in the route, so that neither changes by mistake. */
  access: Access
  /** The status of a successful call. */
  status: number
  /** Creates a resource for the path. Returns the text for the part from the first `{` to the last `}`. */
  target?: (db: Db, world: World) => Promise<string>
  /** Callers who do not own the target also need this section at level `admin`. */
  also?: Section
  /** Callers who do not own the target need this section to find it. */
  ownersOr?: Section
  /** The resource is visible to all tenants, or belongs to none. */
  isPublic?: true
  /** A successful response reports rejections in its body, so it is returned for any request. */
  saysRefusals?: true
  query?: string
  headers?: Record<string, string>
  /** Valid bodies. The first sets every field of one request. Together they contain every string and object. */
  bodies?: (known: Known, name: string) => [Body, ...Body[]]
  /** Requests that refer to resources outside the path, which may belong to another tenant. */
  references?: ((known: Known & { mark: string }, name: string) => { query?: string; body?: object })[]
}
type Body = object

export const MULTIPART_BODY = multipart([{ fileName: 'notes.md', content: '# Notes\n\nThe lift is in the hall.' }])

const KEY_SETTINGS = {
  adminAccess: false,
  indexAccess: 'write',
  billingMode: 'user-completions',
  usageByModel: { enabled: false, dollarLimit: 5 },
  dailyLimit: 50,
  monthlyLimit: 500,
  rateLimit: { requestsPerMinute: 5, requestsPerHour: 50 },
  allowedModels: ['test/*'],
  allowedIndexes: ['handbook'],
  allowedSMLTPPolicies: ['public', 'internal'],
  defaultSMLTPPolicy: 'internal',
  allowedIPs: ['127.0.0.0/8'],
  enablePromptShield: false,
  promptShieldSensitivity: 'strict',
  promptShieldPolicyId: 'balanced',
  allowedPromptShieldPolicies: ['strict'],
  allowPromptShieldOptOut: false,
  failoverDefaults: { models: ['test/any'], timeout_ms: 5000, first_token_timeout_ms: 900, on: ['timeout'] },
  cacheAnswers: true,
  expiresAt: '2999-01-01T00:00:00.000Z',
}

const ROLE = {
  displayName: 'Auditor',
  description: 'Looks, and does not touch',
  hasAdminPanelAccess: true,
  permissions: [{ section: 'user-management', level: 'reader' }],
  canInteractWithAI: true,
  canUseChat: true,
}

const providerName = (name: string) => name.toLowerCase().replace(/[^a-z0-9._-]/g, '-')

const PROVIDER = {
  kind: 'azure',
  base_url: 'http://127.0.0.1:61999/v1',
  api_key: 'sk-of-a-provider-1f2e3d',
  api_version: '2024-10-21',
  api: 'chat',
  region: 'eu',
  models: ['small'],
  proxy: 'none',
}
const VERTEX_PROVIDER = {
  kind: 'vertex',
  base_url: 'http://127.0.0.1:61999',
  location: 'europe-west4',
  project: 'my-project-123',
  publisher: 'google',
}

const WEBHOOK = {
  url: 'http://127.0.0.1:61999/hook',
  description: 'Our receiver',
  events: ['pii:incident'],
  enabled: true,
}

const SHIELD_POLICY = {
  sensitivity: 'strict',
  mode: 'monitor',
  layers: ['regex', 'llm'],
  thresholds: { log: 10, flag: 40, block: 90 },
  categories: {
    jailbreak: 'FLAG',
    prompt_injection: 'FLAG',
    prompt_leaking: 'LOG',
    role_hijack: 'FLAG',
    data_extraction: 'FLAG',
    indirect_injection: 'FLAG',
    tool_poisoning: 'FLAG',
    obfuscation: 'LOG',
  },
  scanInput: true,
  scanRetrieved: false,
  scanOutput: false,
  allowOptOut: false,
  judgeModel: 'test/any',
}

const GUARD_RULE = {
  kind: 'dlp',
  detector: 'regex',
  description: 'Numbers of projects',
  pattern: 'PRJ-[0-9]{4}',
  caseSensitive: true,
  maxChars: 32,
  validator: 'luhn',
  severity: 'high',
  direction: 'input',
  action: 'block',
  enabled: false,
  simulate: true,
}
const GUARD_RULE_OF_WORDS = { kind: 'pii', detector: 'keywords', words: ['Falcon'] }

const POLICY = {
  version: 1,
  mode: 'monitor',
  allowedModels: ['test/*', 'local/*'],
  deniedModels: ['test/never'],
  allowedProviders: ['test', 'local'],
  residency: { allowedRegions: ['eu'], onUnknown: 'allow' },
  egress: { allowHosts: ['127.0.0.1'], denyHosts: ['*.example.com'] },
  pii: { enabled: true, entities: ['EMAIL'], action: 'log', direction: 'both' },
  dlp: { enabled: true, rules: ['secrets'], action: 'log', direction: 'input' },
  promptShield: { required: false, minSensitivity: 'strict', policyId: 'balanced' },
  canary: { enabled: false, action: 'redact' },
  promptLeak: { action: 'flag' },
  urls: { unknownHosts: 'log', links: 'data', allowHosts: ['*.example.com'] },
  attachments: 'allow',
  cache: { mode: 'off' },
  receipts: { required: false },
  privacyHeaders: { noTraining: false },
  retentionDays: 30,
}
const POLICY_OF_WORDS = { pii: { entities: 'all' }, dlp: { rules: 'all' }, promptShield: { policyId: null } }

/** The keys of these tests have no prompt shield. Keys with one are tested in test/daemon/safety/prompt-shield. */
const WITHOUT_SHIELD = 403

const open = { access: 'none', status: 200 } satisfies RouteCall
const searchOf = ({ mark }: { mark: string }) => ({ query: `search=${mark}` })
const ofEvidence = { access: 'smltp-security', status: 200 } satisfies RouteCall
const userOf = ({ userId }: Known) => ({ query: `userId=${userId}` })
/** A period that includes all test data. Its end does not depend on the time of the request. */
const SINCE = 'startDate=2025-12-31&endDate=2099-12-31'
const LOG_REFERENCES: RouteCall['references'] = [
  ({ mark }) => ({ query: `${SINCE}&search=${mark}` }),
  ({ userId }) => ({ query: `${SINCE}&userId=${userId}` }),
  ({ userId }) => ({ query: `${SINCE}&apiKeyId=${userId}` }),
  ({ mark }) => ({ query: `${SINCE}&requestId=${mark}` }),
]

/** Models belong to the installation. */
const GEMINI = { access: 'key', status: 200, target: async () => 'test/any', isPublic: true } satisfies RouteCall

const GEMINI_CONTENTS = {
  systemInstruction: { parts: [{ text: 'Be brief.' }] },
  contents: [
    { role: 'user', parts: [{ text: 'Where is the lift?' }] },
    {
      role: 'model',
      parts: [
        { text: 'Hm.', thought: true, thoughtSignature: 'c2ln' },
        { functionCall: { id: 'call_1', name: 'look', args: { at: 'floor 1' } } },
      ],
    },
    { role: 'user', parts: [{ functionResponse: { id: 'call_1', name: 'look', response: { output: 'A lift.' } } }] },
  ],
  // Without tools: an unknown member of a tool is a tool that only Google knows.
  safetySettings: [{ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'BLOCK_NONE' }],
  generationConfig: {
    candidateCount: 1,
    stopSequences: ['END'],
    maxOutputTokens: 50,
    temperature: 0.5,
    topP: 0.5,
    topK: 10,
    seed: 7,
    presencePenalty: 0.1,
    frequencyPenalty: 0.1,
    responseLogprobs: false,
    responseMimeType: 'text/plain',
    responseModalities: ['TEXT'],
    thinkingConfig: { includeThoughts: true, thinkingBudget: 512, thinkingLevel: 'LOW' },
  },
}
const GEMINI_BODY = {
  ...GEMINI_CONTENTS,
  smltp_policy: 'public',
  prompt_shield: { enabled: false },
  fallback_models: ['test/other', { model: 'test/third', timeout_ms: 5000 }],
  redundancy: { timeout_ms: 5000, on: ['timeout'], commit: 'complete' },
}
const GEMINI_BODY_OF_FILES = {
  contents: [
    { role: 'user', parts: [{ inlineData: { mimeType: 'image/png', data: 'aGk=' } }] },
    { role: 'model', parts: [{ functionCall: { name: 'look' } }] },
    {
      role: 'function',
      parts: [
        {
          functionResponse: {
            name: 'look',
            response: { found: true },
            parts: [{ inlineData: { mimeType: 'image/png', data: 'aGk=' } }],
          },
        },
      ],
    },
  ],
  generationConfig: { responseMimeType: 'application/json', responseSchema: { type: 'STRING' } },
}
const GEMINI_EMBEDDING = {
  content: { parts: [{ text: 'Hello' }] },
  taskType: 'RETRIEVAL_QUERY',
  title: 'A title',
  outputDimensionality: 3,
}

/** A stored answer belongs to one user, so nobody else finds it. */
const ofAnotherUser = { access: 'key', status: 404, target: addTarget.response } satisfies RouteCall

export const ROUTE_CALLS: Record<string, RouteCall> = {
  'GET /api/external/v1/responses/{responseId}': ofAnotherUser,
  'GET /api/external/v1/responses/{responseId}/input_items': ofAnotherUser,
  'DELETE /api/external/v1/responses/{responseId}': ofAnotherUser,
  'POST /api/external/v1/responses/{responseId}/cancel': ofAnotherUser,
  'GET /api/external/health': open,
  'GET /livez': open,
  'GET /metrics': { access: 'operator', status: 200 },
  'GET /readyz': open,
  'GET /openapi.json': open,
  'GET /docs': open,
  'GET /.well-known/aigw-keys.json': open,
  'GET /api/public/verify/{bundleId}': { ...open, target: addTarget.receipt, isPublic: true },
  'GET /verify/{bundleId}': { ...open, target: addTarget.receipt, isPublic: true },
  // The operator of these tests does not publish tiles.
  'GET /tlog/{logId}/{path}': { access: 'none', status: 404, target: addTarget.log, isPublic: true },

  'GET /api/external/receipts/{bundleId}': {
    access: 'key',
    status: 200,
    target: addTarget.receipt,
    ownersOr: 'smltp-security',
  },
  'GET /api/external/receipts/{bundleId}/bundle': {
    access: 'key',
    status: 200,
    target: addTarget.coveredReceipt,
    ownersOr: 'smltp-security',
  },
  'GET /api/external/audit-logs': { ...ofEvidence, query: SINCE, references: LOG_REFERENCES },
  'GET /api/external/activity-logs': { ...ofEvidence, query: SINCE, references: LOG_REFERENCES },
  'GET /api/external/transparency/status': ofEvidence,
  'GET /api/external/transparency/entries': ofEvidence,
  'GET /api/external/transparency/chain-integrity': ofEvidence,
  'GET /api/external/transparency/search': {
    ...ofEvidence,
    query: 'q=chat',
    references: [({ userId }) => ({ query: `q=${userId}&field=actor` })],
  },
  'GET /api/external/transparency/compliance-report': { ...ofEvidence, query: `${SINCE}&format=csv` },
  'GET /api/external/transparency/chains': ofEvidence,
  'GET /api/external/transparency/chains/{chain}/entries': {
    ...ofEvidence,
    target: addTarget.chain,
    query: 'from=0&limit=10',
  },
  'GET /api/external/transparency/commits': { ...ofEvidence, query: `ids=${'0'.repeat(24)}` },
  'GET /api/external/transparency/checkpoints': ofEvidence,
  'POST /api/external/transparency/checkpoints': { ...ofEvidence, bodies: () => [{ chain: 'changes' }] },
  'GET /api/external/transparency/proofs/inclusion': {
    ...ofEvidence,
    query: 'chain=changes&index=0&size=1',
  },
  'GET /api/external/transparency/proofs/consistency': {
    ...ofEvidence,
    query: 'chain=changes&from=1&to=1',
  },
  'GET /api/external/transparency/tlog/{logId}/{path}': { ...ofEvidence, target: addTarget.log },
  'POST /api/external/transparency/exports/sign': {
    ...ofEvidence,
    bodies: () => [{ chains: [], manifest_sha256: 'ab'.repeat(32), row_count: 0 }],
  },
  'POST /api/external/transparency/keys/rotate': { access: 'operator', status: 200 },
  'GET /api/external/transparency/losses': { access: 'operator', status: 200 },
  'POST /api/external/transparency/losses/{lossId}/acknowledge': {
    access: 'operator',
    status: 200,
    target: addTarget.loss,
    bodies: () => [{ reason: 'The disk was replaced.' }],
  },

  'GET /api/admin/secrets/master-key': { access: 'operator', status: 200 },
  'POST /api/admin/secrets/rotate-master': { access: 'operator', status: 409 },

  'POST /api/admin/config/reload': { access: 'operator', status: 200 },
  'GET /api/admin/providers': { access: 'operator', status: 200 },
  'POST /api/admin/providers': {
    access: 'operator',
    status: 201,
    bodies: (_, name) => [
      { name: providerName(name), ...PROVIDER },
      { name: providerName(`${name}v`), ...VERTEX_PROVIDER },
    ],
  },
  'GET /api/admin/providers/{name}': { access: 'operator', status: 200, target: addTarget.provider },
  'PUT /api/admin/providers/{name}': {
    access: 'operator',
    status: 200,
    target: addTarget.provider,
    bodies: () => [PROVIDER],
  },
  'DELETE /api/admin/providers/{name}': { access: 'operator', status: 200, target: addTarget.provider },
  'POST /api/admin/providers/{name}/test': {
    access: 'operator',
    status: 200,
    target: addTarget.provider,
    bodies: () => [{ model: 'small' }],
  },

  'GET /api/admin/tenants': { access: 'operator', status: 200 },
  'POST /api/admin/tenants': {
    access: 'operator',
    status: 201,
    bodies: (_, name) => [
      { name, admin: { name: `${name} admin`, email: `${name}@example.com`, username: name.slice(0, 30) } },
    ],
  },
  'GET /api/admin/tenants/{tenantId}': { access: 'operator', status: 200, target: addTarget.tenant },
  'PUT /api/admin/tenants/{tenantId}': {
    access: 'operator',
    status: 200,
    target: addTarget.tenant,
    bodies: (_, name) => [{ name, status: 'Disabled' }],
  },
  'POST /api/admin/tenants/{tenantId}/admin-key': {
    access: 'operator',
    status: 201,
    target: async (db, world) => {
      const tenantId = await addTarget.tenant(db, world)
      await addUser(db, { tenant_id: tenantId, role: 'admin' })
      return tenantId
    },
    bodies: () => [{}],
  },

  'GET /api/external/users': { access: 'user-management', status: 200, references: [searchOf] },
  'POST /api/external/users': {
    access: 'user-management',
    status: 201,
    bodies: ({ roleId }, name) => [
      {
        name,
        email: `${name}@example.com`,
        username: name,
        password: null,
        role: 'user',
        license: 'Growth',
        usageByModel: { enabled: true, dollarLimit: 5 },
        roleId,
        setupCompleted: true,
        authType: 'basic',
      },
      { name, email: `${name}@example.com` },
    ],
    references: [({ roleId }, name) => ({ body: { name, email: `${name}@example.com`, roleId } })],
  },
  'GET /api/external/users/{userId}': { access: 'user-management', status: 200, target: addTarget.user },
  'PUT /api/external/users/{userId}': {
    access: 'user-management',
    status: 200,
    target: addTarget.user,
    bodies: ({ roleId }, name) => [
      {
        name,
        email: `${name}@example.com`,
        username: name,
        password: null,
        role: 'user',
        license: 'Growth',
        usageByModel: { enabled: true, dollarLimit: 5 },
        status: 0,
        roleId,
        setupCompleted: false,
        isVerified: true,
      },
      { name },
    ],
    references: [({ roleId }) => ({ body: { roleId } })],
  },
  'DELETE /api/external/users/{userId}': { access: 'user-management', status: 200, target: addTarget.user },
  'GET /api/external/licenses/availability': { access: 'user-management', status: 200 },

  'GET /api/external/groups': { access: 'group-management', status: 200, references: [searchOf] },
  'POST /api/external/groups': {
    access: 'group-management',
    status: 201,
    bodies: ({ userId }, name) => [{ name, description: 'On call', users: [userId], status: 'Active' }],
    references: [({ userId }, name) => ({ body: { name, description: '', users: [userId] } })],
  },
  'GET /api/external/groups/{groupId}': { access: 'group-management', status: 200, target: addTarget.group },
  'PUT /api/external/groups/{groupId}': {
    access: 'group-management',
    status: 200,
    target: addTarget.group,
    bodies: ({ userId }, name) => [{ name, description: 'On call', users: [userId], status: 'Inactive' }],
    references: [({ userId }) => ({ body: { users: [userId] } })],
  },
  'DELETE /api/external/groups/{groupId}': { access: 'group-management', status: 200, target: addTarget.group },

  'GET /api/external/roles': { access: 'user-management', status: 200, references: [searchOf] },
  'POST /api/external/roles': {
    access: 'user-management',
    status: 201,
    bodies: (_, name) => [{ name, ...ROLE }],
  },
  'GET /api/external/roles/{roleId}': { access: 'user-management', status: 200, target: addTarget.role },
  'PUT /api/external/roles/{roleId}': {
    access: 'user-management',
    status: 200,
    target: addTarget.role,
    bodies: () => [ROLE],
  },
  'DELETE /api/external/roles/{roleId}': { access: 'user-management', status: 200, target: addTarget.role },

  'GET /api/external/whoami': { access: 'key', status: 200 },
  'GET /api/admin/api-keys': { access: 'integrations', status: 200, references: [searchOf, userOf] },
  'POST /api/admin/api-keys': {
    access: 'integrations',
    also: 'user-management',
    status: 201,
    bodies: ({ userId }, name) => [{ name, userId, ...KEY_SETTINGS }, { name }],
    references: [({ userId }, name) => ({ body: { name, userId, adminAccess: false } })],
  },
  'GET /api/admin/api-keys/{keyId}': { access: 'integrations', status: 200, target: addTarget.key },
  'PUT /api/admin/api-keys/{keyId}': {
    access: 'integrations',
    also: 'user-management',
    status: 200,
    target: addTarget.key,
    bodies: (_, name) => [{ name, ...KEY_SETTINGS }, { dailyLimit: null }],
  },
  'DELETE /api/admin/api-keys/{keyId}': { access: 'integrations', status: 200, target: addTarget.key },
  'POST /api/admin/api-keys/{keyId}/rotate': {
    access: 'integrations',
    also: 'user-management',
    status: 200,
    target: addTarget.key,
  },

  'GET /api/admin/webhooks': { access: 'integrations', status: 200 },
  'POST /api/admin/webhooks': {
    access: 'integrations',
    status: 201,
    bodies: () => [WEBHOOK],
  },
  'GET /api/admin/webhooks/{webhookId}': { access: 'integrations', status: 200, target: addTarget.webhook },
  'PUT /api/admin/webhooks/{webhookId}': {
    access: 'integrations',
    status: 200,
    target: addTarget.webhook,
    bodies: () => [WEBHOOK, { enabled: false }],
  },
  'DELETE /api/admin/webhooks/{webhookId}': { access: 'integrations', status: 200, target: addTarget.webhook },
  'POST /api/admin/webhooks/{webhookId}/rotate-secret': {
    access: 'integrations',
    status: 200,
    target: addTarget.webhook,
    bodies: () => [{ overlap_seconds: 60 }, {}],
  },
  'POST /api/admin/webhooks/{webhookId}/test': { access: 'integrations', status: 202, target: addTarget.webhook },
  'POST /api/admin/webhooks/{webhookId}/recover': {
    access: 'integrations',
    status: 200,
    target: addTarget.webhook,
    bodies: () => [{ since: '2026-01-01T00:00:00Z' }],
  },
  'GET /api/admin/webhooks/recent-events': { access: 'integrations', status: 200 },
  'POST /api/admin/webhooks/trigger': {
    access: 'integrations',
    status: 202,
    // `data` is missing, because it may have any shape. The endpoint is missing, because delivery would start
    // immediately.
    bodies: () => [{ type: 'pii:incident' }, { type: 'api:model_failover' }],
    references: [({ webhookId }) => ({ body: { type: 'pii:incident', endpoint_id: webhookId } })],
  },
  'GET /api/admin/deliveries': {
    access: 'integrations',
    status: 200,
    references: [({ webhookId }) => ({ query: `webhookId=${webhookId}` })],
  },
  'GET /api/admin/deliveries/{deliveryId}': { access: 'integrations', status: 200, target: addTarget.delivery },
  'POST /api/admin/deliveries/{deliveryId}/resend': {
    access: 'integrations',
    status: 202,
    target: addTarget.delivery,
  },

  'GET /api/admin/cache': { access: 'settings', status: 200 },
  'DELETE /api/admin/cache': { access: 'settings', status: 200 },

  'GET /api/admin/usage': {
    access: 'analytics',
    status: 200,
    references: [userOf, ({ userId }) => ({ query: `apiKeyId=${userId}` })],
  },
  'GET /api/external/usage/report': { access: 'analytics', status: 200, query: 'by=user,key,model,provider,tag' },
  'GET /api/admin/budgets': { access: 'user-management', status: 200 },
  'POST /api/admin/budgets': {
    access: 'user-management',
    status: 201,
    bodies: (_, name) => [{ scope: 'tag', subject: name, dollarLimit: 5 }],
    references: [({ groupId }) => ({ body: { scope: 'group', subject: groupId, dollarLimit: 5 } })],
  },
  'GET /api/admin/budgets/{budgetId}': { access: 'user-management', status: 200, target: addTarget.budget },
  'PUT /api/admin/budgets/{budgetId}': {
    access: 'user-management',
    status: 200,
    target: addTarget.budget,
    bodies: () => [{ dollarLimit: 7 }],
  },
  'DELETE /api/admin/budgets/{budgetId}': { access: 'user-management', status: 200, target: addTarget.budget },
  'GET /api/admin/usage/reconcile': { access: 'analytics', status: 200, query: 'month=2026-01' },
  'GET /api/admin/incidents': {
    access: 'smltp-security',
    status: 200,
    references: [
      userOf,
      ({ userId }) => ({ query: `apiKeyId=${userId}` }),
      ({ mark }) => ({ query: `requestId=${mark}` }),
    ],
  },
  'GET /api/admin/incidents/counts': { access: 'smltp-security', status: 200 },
  'GET /api/admin/incidents/{incidentId}': {
    access: 'smltp-security',
    status: 200,
    target: addTarget.incident,
  },

  'POST /api/external/prompt-shield/scan': {
    access: 'key',
    status: WITHOUT_SHIELD,
    bodies: () => [
      {
        prompt: 'Where is the lift?',
        context: { chatbotId: 'bot', conversationId: 'conversation', language: 'en' },
        options: {
          sensitivityLevel: 'strict',
          detectionLayers: ['regex'],
          returnDetails: true,
          policy: 'strict',
          source: 'tool',
          explain: true,
        },
      },
    ],
  },
  'POST /api/external/prompt-shield/scan-output': {
    access: 'key',
    status: WITHOUT_SHIELD,
    bodies: () => [{ output: 'In the hall.', chatbotId: 'bot', systemPromptSnippets: ['Be brief.'] }],
  },
  'POST /api/external/prompt-shield/scan-conversation': {
    access: 'key',
    status: WITHOUT_SHIELD,
    bodies: () => [{ messages: [{ role: 'user', content: 'Where is the lift?' }], chatbotId: 'bot' }],
  },
  'GET /api/admin/prompt-shield-policies': { access: 'smltp-security', status: 200 },
  'POST /api/admin/prompt-shield-policies': {
    access: 'smltp-security',
    status: 201,
    bodies: (_, name) => [{ name, description: 'For the help desk', policy: SHIELD_POLICY }],
  },
  'GET /api/admin/prompt-shield-policies/{policyId}': {
    access: 'smltp-security',
    status: 200,
    target: addTarget.shieldPolicy,
  },
  'PUT /api/admin/prompt-shield-policies/{policyId}': {
    access: 'smltp-security',
    status: 200,
    target: addTarget.shieldPolicy,
    bodies: () => [{ description: 'For the help desk', policy: SHIELD_POLICY }],
  },
  'DELETE /api/admin/prompt-shield-policies/{policyId}': {
    access: 'smltp-security',
    status: 200,
    target: addTarget.shieldPolicy,
  },

  'GET /api/admin/guard-rules': { access: 'smltp-security', status: 200 },
  'POST /api/admin/guard-rules': {
    access: 'smltp-security',
    status: 201,
    bodies: (_, name) => [
      { name, ...GUARD_RULE },
      { name, ...GUARD_RULE_OF_WORDS },
    ],
  },
  'GET /api/admin/guard-rules/{ruleId}': {
    access: 'smltp-security',
    status: 200,
    target: addTarget.guardRule,
  },
  'PUT /api/admin/guard-rules/{ruleId}': {
    access: 'smltp-security',
    status: 200,
    target: addTarget.guardRule,
    bodies: () => [
      { ...GUARD_RULE, words: [] },
      { ...GUARD_RULE_OF_WORDS, pattern: null },
    ],
  },
  'DELETE /api/admin/guard-rules/{ruleId}': {
    access: 'smltp-security',
    status: 200,
    target: addTarget.guardRule,
  },
  'POST /api/admin/guard-rules/simulate': {
    access: 'smltp-security',
    status: 200,
    bodies: () => [
      { rule: GUARD_RULE, samples: ['PRJ-1234'] },
      { rule: GUARD_RULE_OF_WORDS, samples: ['Falcon'] },
    ],
  },

  'GET /api/external/models': { access: 'key', status: 200 },
  'GET /api/external/usage': { access: 'key', status: 200 },

  'POST /api/external/chat/completions': {
    access: 'key',
    status: 200,
    bodies: ({ indexName }) => [
      {
        prompt: 'Where is the lift?',
        system_message: 'Be brief.',
        model: 'test/any',
        fallback_models: ['test/other', { model: 'test/third', timeout_ms: 5000 }],
        redundancy: { timeout_ms: 5000, on: ['timeout'], commit: 'complete' },
        index: indexName,
        smltp_policy: 'public',
        conversation_id: 'conversation',
        prompt_shield: { enabled: false },
        temperature: 0.5,
        max_tokens: 50,
        stream: false,
      },
      { messages: [{ role: 'user', content: 'Hello' }], models: ['test/any', { model: 'test/b' }], index: indexName },
      { prompt: 'Hello', model: 'local/extract', index: indexName },
    ],
    references: [
      ({ indexName }) => ({ body: { prompt: 'Hello', model: 'test/any', index: indexName } }),
      ({ userId }) => ({ body: { prompt: 'Hello', model: 'test/any', index: 'Zero-Knowledge', user_id: userId } }),
    ],
  },
  'POST /api/external/policy-check': {
    access: 'key',
    status: 200,
    saysRefusals: true,
    bodies: ({ indexName }) => [{ prompt: 'Hello', model: 'test/any', index: indexName }],
    references: [
      ({ indexName }) => ({ body: { prompt: 'Hello', model: 'test/any', index: indexName } }),
      ({ userId }) => ({ body: { prompt: 'Hello', model: 'test/any', index: 'Zero-Knowledge', user_id: userId } }),
    ],
  },
  'POST /api/external/v1/chat/completions': {
    access: 'key',
    status: 200,
    bodies: () => [
      {
        model: 'test/any',
        messages: [
          { role: 'system', content: 'Be brief.' },
          { role: 'user', content: [{ type: 'text', text: 'Where is the lift?' }] },
        ],
        fallback_models: ['test/other', { model: 'test/third', timeout_ms: 5000 }],
        redundancy: { timeout_ms: 5000, on: ['timeout'], commit: 'complete' },
        smltp_policy: 'public',
        prompt_shield: { enabled: false },
        temperature: 0.5,
        max_tokens: 50,
        max_completion_tokens: 50,
        stream: false,
        stream_options: { include_usage: false },
        n: 1,
        tool_choice: 'none',
        tools: [{ type: 'function', function: { name: 'look', description: 'Looks', strict: false } }],
        parallel_tool_calls: true,
        response_format: { type: 'text' },
        stop: ['END'],
        top_p: 0.5,
        frequency_penalty: 0.1,
        presence_penalty: 0.1,
        seed: 7,
        logprobs: false,
        prompt_cache_key: 'a cache key',
        user: 'someone',
      },
      {
        models: ['test/any', { model: 'test/b' }],
        smltp_policy: 'public',
        prompt_shield: { enabled: false },
        stop: 'END',
        reasoning_effort: 'low',
        tool_choice: { type: 'function', function: { name: 'look' } },
        tools: [{ type: 'function', function: { name: 'look', description: 'Looks' } }],
        response_format: { type: 'json_schema', json_schema: { name: 'answer', description: 'An answer' } },
        messages: [
          { role: 'developer', content: [{ type: 'text', text: 'Be brief.' }] },
          { role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,aGk=' } }] },
          {
            role: 'assistant',
            content: [
              { type: 'text', text: 'Let me see.' },
              { type: 'refusal', refusal: 'No.' },
            ],
            reasoning_content: 'Hm.',
            tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'look', arguments: '{}' } }],
          },
          { role: 'tool', tool_call_id: 'call_1', content: [{ type: 'text', text: 'A lift.' }] },
        ],
      },
      { model: 'test/any', messages: [{ role: 'user', content: 'Hello' }] },
    ],
    references: [
      ({ userId }) => ({
        body: { model: 'test/any', messages: [{ role: 'user', content: 'Hello' }], user_id: userId },
      }),
    ],
  },
  'POST /api/external/v1/responses': {
    access: 'key',
    status: 200,
    bodies: () => [
      {
        model: 'test/any',
        instructions: 'Be brief.',
        input: [
          { type: 'message', id: 'msg_0', status: 'completed', role: 'system', content: 'Be kind.' },
          { role: 'developer', content: [{ type: 'input_text', text: 'Be quick.' }] },
          {
            role: 'user',
            content: [
              { type: 'input_text', text: 'Where is the lift?' },
              { type: 'input_image', image_url: 'data:image/png;base64,aGk=', detail: 'auto' },
            ],
          },
          { role: 'user', content: 'Where is it?' },
          {
            type: 'reasoning',
            id: 'rs_1',
            status: 'completed',
            summary: [{ type: 'summary_text', text: 'Hm.' }],
            content: [{ type: 'reasoning_text', text: 'Well.' }],
            encrypted_content: 'c2VhbGVk',
          },
          {
            type: 'message',
            id: 'msg_1',
            status: 'completed',
            role: 'assistant',
            phase: 'commentary',
            content: [
              { type: 'output_text', text: 'Let me see.' },
              { type: 'input_text', text: 'Well.' },
              { type: 'refusal', refusal: 'No.' },
            ],
          },
          {
            type: 'function_call',
            id: 'fc_1',
            status: 'completed',
            call_id: 'call_1',
            namespace: 'house',
            name: 'look',
            arguments: '{"at":"floor 1"}',
          },
          {
            type: 'custom_tool_call',
            id: 'ctc_1',
            status: 'completed',
            call_id: 'call_2',
            namespace: 'house',
            name: 'write',
            input: 'A lift.',
          },
          {
            type: 'function_call_output',
            id: 'fco_1',
            status: 'completed',
            call_id: 'call_1',
            output: [
              { type: 'input_text', text: 'A lift.' },
              { type: 'input_image', image_url: 'data:image/png;base64,aGk=', detail: 'auto' },
            ],
          },
          { type: 'custom_tool_call_output', call_id: 'call_2', output: 'Written.' },
          { role: 'assistant', content: 'Here.' },
        ],
        tools: [
          { type: 'function', name: 'look', description: 'Looks', strict: false },
          {
            type: 'custom',
            name: 'write',
            description: 'Writes',
            format: { type: 'grammar', syntax: 'lark', definition: 'start: WORD' },
          },
          {
            type: 'namespace',
            name: 'house',
            description: 'The house.',
            tools: [
              { type: 'function', name: 'look', description: 'Looks inside' },
              {
                type: 'custom',
                name: 'write',
                description: 'Writes inside',
                format: { type: 'grammar', syntax: 'regex', definition: 'a+' },
              },
            ],
          },
          { type: 'web_search' },
        ],
        tool_choice: 'auto',
        text: { format: { type: 'json_object' } },
        reasoning: { effort: 'low', summary: 'auto' },
        include: ['reasoning.encrypted_content'],
        truncation: 'disabled',
        metadata: { team: 'desk' },
        max_output_tokens: 50,
        temperature: 0.5,
        top_p: 0.5,
        user: 'someone',
        safety_identifier: 'someone',
        store: false,
        stream: false,
      },
      {
        model: 'test/any',
        input: 'Hello',
        tools: [{ type: 'function', name: 'look', description: 'Looks' }],
        tool_choice: { type: 'function', name: 'look' },
        text: { format: { type: 'text' } },
      },
    ],
    references: [({ userId }) => ({ body: { model: 'test/any', input: 'Hello', user_id: userId } })],
  },
  'POST /api/external/v1/messages': {
    access: 'key',
    status: 200,
    bodies: () => [
      {
        model: 'test/any',
        max_tokens: 50,
        system: [{ type: 'text', text: 'Be brief.' }],
        messages: [
          { role: 'user', content: 'Hello' },
          { role: 'assistant', content: [{ type: 'text', text: 'Hello.' }] },
          { role: 'user', content: [{ type: 'text', text: 'Where is the lift?' }] },
        ],
        stop_sequences: ['END'],
        top_p: 0.5,
        temperature: 0.5,
        stream: false,
        metadata: { user_id: 'someone' },
      },
    ],
    references: [
      ({ userId }) => ({
        body: { model: 'test/any', max_tokens: 5, messages: [{ role: 'user', content: 'Hello' }], user_id: userId },
      }),
    ],
  },
  'POST /api/external/v1/messages/count_tokens': {
    access: 'key',
    status: 200,
    bodies: () => [
      {
        model: 'test/any',
        system: [{ type: 'text', text: 'Be brief.' }],
        messages: [
          { role: 'user', content: 'Hello' },
          { role: 'assistant', content: [{ type: 'text', text: 'Hello.' }] },
          { role: 'user', content: [{ type: 'text', text: 'Where is the lift?' }] },
        ],
        smltp_policy: 'public',
        prompt_shield: { enabled: false },
      },
    ],
  },
  'POST /api/external/v1/embeddings': {
    access: 'key',
    status: 200,
    bodies: () => [{ model: 'test/any', input: ['one'], encoding_format: 'float', user: 'someone' }],
  },
  'GET /api/external/v1/models': { access: 'key', status: 200 },
  'GET /api/external/v1/models/{model}': {
    access: 'key',
    status: 200,
    // Models belong to the installation.
    target: async () => 'local/extract',
    isPublic: true,
  },

  'POST /api/external/v1/completions': {
    access: 'key',
    status: 200,
    bodies: () => [
      {
        model: 'test/any',
        fallback_models: ['test/other', { model: 'test/third', timeout_ms: 5000 }],
        redundancy: { timeout_ms: 5000, on: ['timeout'], commit: 'complete' },
        smltp_policy: 'public',
        prompt_shield: { enabled: false },
        temperature: 0.5,
        max_tokens: 50,
        stream: false,
        stream_options: { include_usage: false },
        prompt: ['Where is the lift?'],
        stop: ['END'],
        top_p: 0.5,
        frequency_penalty: 0.1,
        presence_penalty: 0.1,
        seed: 7,
        user: 'someone',
        n: 1,
        best_of: 1,
        echo: false,
      },
      { models: ['test/any', { model: 'test/b' }], prompt: 'Hello', stop: 'END' },
    ],
    references: [({ userId }) => ({ body: { model: 'test/any', prompt: 'Hello', user_id: userId } })],
  },
  'POST /api/external/v1/moderations': {
    access: 'key',
    status: 200,
    bodies: () => [
      {
        model: 'omni-moderation-latest',
        smltp_policy: 'public',
        prompt_shield: { enabled: false },
        input: ['Hello', { type: 'text', text: 'Where is the lift?' }],
      },
      { input: 'Hello' },
    ],
  },
  'POST /api/external/v1/rerank': {
    access: 'key',
    status: 200,
    bodies: () => [
      {
        model: 'test/any',
        smltp_policy: 'public',
        prompt_shield: { enabled: false },
        query: 'Where is the lift?',
        documents: ['In the hall.', { text: 'In the cellar.' }],
        top_n: 1,
        return_documents: true,
      },
    ],
    references: [
      ({ userId }) => ({ body: { model: 'test/any', query: 'lift', documents: ['hall'], user_id: userId } }),
    ],
  },
  'POST /api/external/v1beta/models/{model}:generateContent': {
    ...GEMINI,
    bodies: () => [GEMINI_BODY, GEMINI_BODY_OF_FILES],
  },
  'POST /api/external/v1beta/models/{model}:streamGenerateContent': { ...GEMINI, bodies: () => [GEMINI_BODY] },
  'POST /api/external/v1beta/models/{model}:countTokens': {
    ...GEMINI,
    bodies: () => [
      { contents: [{ parts: [{ text: 'Hello' }] }], systemInstruction: { parts: [{ text: 'Be brief.' }] } },
      { generateContentRequest: GEMINI_CONTENTS, smltp_policy: 'public', prompt_shield: { enabled: false } },
    ],
  },
  'POST /api/external/v1beta/models/{model}:embedContent': {
    ...GEMINI,
    bodies: () => [{ ...GEMINI_EMBEDDING, smltp_policy: 'public', prompt_shield: { enabled: false } }],
  },
  'POST /api/external/v1beta/models/{model}:batchEmbedContents': {
    ...GEMINI,
    bodies: () => [{ requests: [GEMINI_EMBEDDING], smltp_policy: 'public', prompt_shield: { enabled: false } }],
  },
  'GET /api/external/v1beta/models': { access: 'key', status: 200, query: 'pageSize=1&pageToken=0' },
  'GET /api/external/v1beta/models/{model}': {
    access: 'key',
    status: 200,
    target: async () => 'local/extract',
    isPublic: true,
  },

  'GET /api/external/indexes': { access: 'key', status: 200 },
  'GET /api/external/indexes/all': { access: 'index-management', status: 200, references: [searchOf] },
  'POST /api/external/indexes': {
    access: 'index-management',
    status: 201,
    bodies: ({ groupId }, name) => [
      {
        name,
        description: 'How we work',
        region: 'us-east-1',
        cloud: 'aws',
        sharedIndexName: name,
        namespace: `user-${name}`,
        assignedUser: null,
        assignedGroup: groupId,
        indexAccess: 'read',
      },
      { name, assignedUser: null },
    ],
    references: [
      ({ userId }, name) => ({ body: { name, assignedUser: userId } }),
      ({ groupId }, name) => ({ body: { name, assignedGroup: groupId } }),
    ],
  },
  'GET /api/external/indexes/{indexId}': { access: 'index-management', status: 200, target: addTarget.indexById },
  'PUT /api/external/indexes/{indexId}': {
    access: 'index-management',
    status: 200,
    target: addTarget.indexById,
    bodies: ({ groupId }, name) => [
      { name, description: 'How we work', assignedUser: null, assignedGroup: groupId, indexAccess: 'read' },
      { description: '' },
    ],
    references: [
      ({ userId }) => ({ body: { assignedUser: userId } }),
      ({ groupId }) => ({ body: { assignedGroup: groupId } }),
    ],
  },
  'POST /api/external/indexes/{indexId}/rebuild': {
    access: 'index-management',
    status: 200,
    target: addTarget.indexById,
  },
  'DELETE /api/external/indexes/{indexId}': { access: 'index-management', status: 200, target: addTarget.indexById },
  'GET /api/external/indexes/{indexName}/documents': { access: 'key', status: 200, target: addTarget.index },
  'DELETE /api/external/indexes/{indexName}/documents/{documentId}': {
    access: 'key',
    also: 'index-management',
    status: 200,
    target: addTarget.document,
  },
  'POST /api/external/indexes/{indexName}/train': {
    access: 'key',
    also: 'index-management',
    status: 200,
    target: addTarget.index,
    headers: MULTIPART,
  },
  'GET /api/external/indexes/{indexName}/search': {
    access: 'key',
    status: 200,
    target: addTarget.index,
    query: 'query=lift',
  },

  'GET /api/external/smltp-policies': { access: 'key', status: 200 },
  'GET /api/external/smltp-policies/all': { access: 'smltp-security', status: 200 },
  'GET /api/external/smltp-policies/active': { access: 'smltp-security', status: 200 },
  'POST /api/external/smltp-policies': {
    access: 'smltp-security',
    status: 201,
    bodies: (_, name) => [
      { name, description: 'How we work', policy: POLICY, setAsActive: false },
      { name, description: 'How we work', policy: POLICY_OF_WORDS },
    ],
  },
  'POST /api/external/smltp-policies/diff': {
    access: 'smltp-security',
    status: 200,
    bodies: () => [
      { from: 'internal', to: POLICY },
      { from: POLICY_OF_WORDS, to: 'public' },
      { from: POLICY, to: POLICY_OF_WORDS },
    ],
  },
  'GET /api/external/smltp-policies/{policyId}': {
    access: 'smltp-security',
    status: 200,
    target: addTarget.policy,
  },
  'GET /api/external/smltp-policies/{policyId}/effective': {
    access: 'smltp-security',
    status: 200,
    target: addTarget.policy,
  },
  'PUT /api/external/smltp-policies/{policyId}': {
    access: 'smltp-security',
    status: 200,
    target: addTarget.policy,
    bodies: () => [{ description: 'How we work', policy: POLICY }, { policy: POLICY_OF_WORDS }],
  },
  'DELETE /api/external/smltp-policies/{policyId}': {
    access: 'smltp-security',
    status: 200,
    target: addTarget.policy,
  },
  'POST /api/external/smltp-policies/{policyId}/activate': {
    access: 'smltp-security',
    status: 200,
    target: addTarget.policy,
  },
}
