import type { z } from 'zod'
import { GatewayError } from '../../../shared/errors.ts'
import { newTraceId } from '../../../shared/ids.ts'
import { CHAT_BODY_BYTES } from '../../../shared/spec-limits.ts'
import type { Clock } from '../../../shared/time.ts'
import { FlatError } from '../../../shared/wire/common.ts'
import {
  ShieldConversationRequest,
  ShieldConversationResponse,
  ShieldOutputRequest,
  ShieldOutputResponse,
  type ShieldPolicyDocument,
  ShieldScanRequest,
  ShieldScanResponse,
} from '../../../shared/wire/shield.ts'
import type { Caller } from '../../platform/http/caller.ts'
import { type RequestContext, type ResponseDoc, type Route, reply, route } from '../../platform/http/route.ts'
import { createPacer } from '../../platform/pacing.ts'
import { createCanaryDetector } from '../guards/canary/detector.ts'
import type { Guards } from '../guards/guards.ts'
import type { ShieldScan } from '../guards/shield/scan.ts'
import { mayCallUnder } from '../policies/enforce.ts'
import type { PolicyCatalogue } from '../policies/policies.ts'
import { resolveShield } from './resolve.ts'
import type { ScanTerms } from './scanner.ts'

const failure = (description: string): ResponseDoc => ({ description, schema: FlatError })

/** Returns the scan routes, for applications that handle the results of scans themselves. Scans are not stored. */
export function scanRoutes({
  guards,
  policies,
  clock,
}: {
  guards: Guards
  policies: PolicyCatalogue
  clock: Clock
}): Route[] {
  const common: Pick<Route, 'method' | 'access' | 'errors' | 'tags' | 'bodyLimit'> = {
    method: 'POST',
    access: 'key',
    errors: 'flat',
    tags: ['Prompt shield'],
    bodyLimit: CHAT_BODY_BYTES,
  }
  const failures = {
    403: failure('The key has no prompt shield, or may not select the requested policy'),
    500: failure('The scan failed'),
    503: failure('Too many recent scans have failed'),
  }

  /**
   * Returns the shield of the caller's chats. With `policy`, returns the shield of chats that name this shield policy.
   */
  async function shieldOf({ settings, tenantId }: Caller, policy?: string): Promise<ShieldPolicyDocument> {
    if (!settings.enablePromptShield) {
      throw new GatewayError(
        'SHIELD_NOT_ENABLED',
        'Prompt shield scans are not enabled for this key. Set its enablePromptShield to true.',
      )
    }
    const custom = await guards.shieldPolicies.of(tenantId)
    const request = policy === undefined ? undefined : { policy }
    const shield = resolveShield({ request, settings, policy: NO_POLICY, custom })
    return (shield as NonNullable<typeof shield>).document
  }
  /**
   * As in a chat, the caller's policy restricts the judge models that may read the text. Scan routes do not redact
   * text. If the caller's rules would change or block a text, the text is therefore not sent to a judge.
   */
  async function termsOf({ caller, signal }: Pick<RequestContext, 'caller' | 'signal'>): Promise<ScanTerms> {
    const policy = (await policies.of(caller.tenantId)).defaultFor(caller.settings)
    const { input } = await guards.rulesFor(caller.tenantId, policy)
    const mayCall = input.acting.length > 0 ? () => false : mayCallUnder(policy)
    return { tenantId: caller.tenantId, mayCall, signal, pacer: createPacer(), wantsDetails: true }
  }
  const since = (startedMs: number): number => Math.round((clock.monotonic() - startedMs) * 100) / 100

  return [
    route({
      ...common,
      path: '/api/external/prompt-shield/scan',
      callsModels: true,
      summary: 'Scan a prompt for attacks',
      body: ShieldScanRequest,
      bodyRequired: true,
      responses: { 200: { description: 'The result of the scan', schema: ShieldScanResponse }, ...failures },
      async handle({ caller, signal, body: { prompt, options } }) {
        const startedMs = clock.monotonic()
        const shield = await shieldOf(caller, options?.policy)
        if (typeof prompt !== 'string' || prompt === '') {
          throw new GatewayError('PROMPT_REQUIRED', 'Send the text to scan in `prompt`.')
        }
        const [scan] = await guards.scanner.scanEach(
          [{ text: prompt, source: options?.source ?? 'user' }],
          {
            ...shield,
            // An explicit sensitivity replaces the policy's thresholds.
            ...(options?.sensitivityLevel && { sensitivity: options.sensitivityLevel, thresholds: null }),
            ...(options?.detectionLayers && { layers: options.detectionLayers }),
          },
          { ...(await termsOf({ caller, signal })), explains: options?.explain },
        )
        const { details, suspects: _, ...found } = scan as ShieldScan
        return reply(200, {
          success: true,
          ...found,
          traceId: newTraceId(),
          latencyMs: since(startedMs),
          ...((options?.returnDetails ?? true) && { details }),
        } satisfies z.input<typeof ShieldScanResponse>)
      },
    }),
    route({
      ...common,
      path: '/api/external/prompt-shield/scan-output',
      callsModels: true,
      summary: "Scan an answer for leaks of the system prompt and of this key's canaries",
      body: ShieldOutputRequest,
      bodyRequired: true,
      responses: { 200: { description: 'The result of the scan', schema: ShieldOutputResponse }, ...failures },
      async handle({ caller, body: { output, systemPromptSnippets } }) {
        const startedMs = clock.monotonic()
        const shield = await shieldOf(caller)
        if (typeof output !== 'string') {
          throw new GatewayError('OUTPUT_REQUIRED', 'Send the text to scan in `output`.')
        }
        const scan = await guards.scanner.scanOutput(output, systemPromptSnippets ?? [], shield, {
          tenantId: caller.tenantId,
          pacer: createPacer(),
        })
        const { live } = guards.canariesOf(caller.keyId)
        const leaked = createCanaryDetector(live).find(output)
        return reply(200, {
          success: true,
          riskScore: leaked.length > 0 ? CERTAIN : scan.riskScore,
          verdict: leaked.length > 0 ? 'BLOCK' : scan.verdict,
          detections: [
            ...leaked.map(({ confidence, subject }) => ({
              type: 'canary_leak',
              category: 'prompt_leaking',
              confidence,
              canaryId: subject,
            })),
            ...scan.detections.map((detection) => ({ ...detection, canaryId: null })),
          ],
          latencyMs: since(startedMs),
        } satisfies z.input<typeof ShieldOutputResponse>)
      },
    }),
    route({
      ...common,
      path: '/api/external/prompt-shield/scan-conversation',
      callsModels: true,
      summary: 'Scan the messages of a user for attacks, one by one and as a conversation',
      body: ShieldConversationRequest,
      responses: { 200: { description: 'The result of the scan', schema: ShieldConversationResponse }, ...failures },
      async handle({ caller, body: { messages } }) {
        const startedMs = clock.monotonic()
        const found = await guards.scanner.scanConversation(messages, await shieldOf(caller), {
          tenantId: caller.tenantId,
          pacer: createPacer(),
        })
        return reply(200, {
          success: true,
          ...found,
          latencyMs: since(startedMs),
        } satisfies z.input<typeof ShieldConversationResponse>)
      },
    }),
  ]
}

/** The risk score of a leaked canary. This score is the maximum, because a text does not contain a canary by chance. */
const CERTAIN = 100

const NO_POLICY = {
  canonical: '',
  document: {
    mode: 'enforce',
    promptShield: { required: false, minSensitivity: 'permissive', policyId: null },
  },
} as const
