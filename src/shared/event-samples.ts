import type { SubscribableEvent, TEST_EVENT } from './event-catalog.ts'
import type { EventData } from './wire/events.ts'

const id = (digit: string): string => digit.repeat(24)
const whose = { userId: id('a'), apiKeyId: id('b') }
const request = { requestId: `req-${id('c')}`, ...whose }
const TRACE = 'trx-00000000-0000-4000-8000-000000000000'
const MODEL = 'openai/gpt-4o'

const attack = {
  traceId: TRACE,
  riskScore: 97,
  attackCategory: 'prompt_injection',
  confidence: 0.95,
  severity: 'high',
  shieldMode: 'blocking',
  policy: 'balanced',
  direction: 'input',
  enforced: true,
  ...request,
  conversationId: `conv-${id('9')}`,
  model: MODEL,
} as const

/** Sample `data` for each event. The samples contain identifiers and counts, never user text. */
export const EVENT_SAMPLES: { [Type in SubscribableEvent]: Required<EventData<Type>> } = {
  'promptshield:attack:blocked': { ...attack, verdict: 'BLOCK' },
  'promptshield:attack:detected': {
    ...attack,
    riskScore: 62,
    confidence: 0.6,
    severity: 'medium',
    verdict: 'FLAG',
  },
  'promptshield:canary:leaked': {
    canaryId: id('d'),
    traceId: TRACE,
    riskScore: 100,
    verdict: 'BLOCK',
    action: 'block',
    enforced: true,
    ...request,
    model: MODEL,
  },
  'dlp:incident': {
    incidentId: id('e'),
    ruleId: id('f'),
    ruleName: 'Card numbers',
    category: 'financial',
    severity: 'high',
    direction: 'input',
    action: 'mask',
    enforced: true,
    matchCount: 2,
    ...request,
  },
  'pii:incident': {
    incidentId: id('e'),
    entityTypes: ['EMAIL', 'PHONE'],
    count: 3,
    redactionMode: 'mask',
    direction: 'input',
    action: 'mask',
    enforced: true,
    ...request,
  },
  'api:limit_reached': {
    apiKeyId: whose.apiKeyId,
    keyName: 'ci',
    userId: whose.userId,
    limitType: 'daily',
    endpoint: null,
    limit: 100,
    used: 100,
    resetTime: '2026-01-02T00:00:00.000Z',
  },
  'api:model_failover': {
    failedModel: 'anthropic/claude-sonnet-4',
    reason: 'timeout',
    nextModel: MODEL,
    latencyMs: 8_000,
    ...whose,
  },
  'security:rejected_requests': {
    address: '192.0.2.1',
    routes: 'authenticated',
    count: 100,
    windowStart: '2026-01-01T00:00:00.000Z',
    windowSeconds: 60,
  },
  'key:expiring': { ...whose, keyName: 'ci', expiresAt: '2026-01-08T00:00:00.000Z' },
  'budget:threshold': {
    scope: 'tag',
    subject: 'team-a',
    budgetId: id('2'),
    threshold: 80,
    dollarLimit: 250,
    currentSpend: 200.5,
    period: '2026-01',
    resetTime: '2026-02-01T00:00:00.000Z',
  },
  'provider:down': { provider: 'openai', model: MODEL, since: '2026-01-01T00:00:00.000Z', reason: 'timeout' },
  'provider:recovered': { provider: 'openai', model: MODEL, since: '2026-01-01T00:00:00.000Z', downSeconds: 42 },
  'index:failed': { indexId: id('1'), indexName: 'handbook', documents: 1, ...request },
  'evidence:degraded': {
    lossId: `${'0'.repeat(64)}`,
    cause: 'entries_missing',
    tenantId: id('6'),
    chain: 'changes',
    foundAt: '2026-01-01T00:00:00.000Z',
  },
}

/** The `data` of a `webhook:test` event. Endpoints cannot subscribe to this event. */
export const TEST_SAMPLE: EventData<typeof TEST_EVENT> = { message: 'This is a test delivery.', endpointId: id('7') }
