import { z } from 'zod'
import { AppliedShieldPolicy } from './chat.ts'
import { anObject } from './common.ts'
import { INCIDENT_ACTIONS } from './incidents.ts'
import { SHIELD_MODES, SHIELD_VERDICTS } from './shield.ts'

export const POLICY_CHECK_PATH = '/api/external/policy-check'

/**
 * The body of POST /policy-check: the same body as for POST /chat/completions. If the body has faults, the response
 * reports these faults.
 */
export const PolicyCheckRequest = z
  .looseObject({}, anObject)
  .meta({ id: 'PolicyCheckRequest', description: 'A body of POST /chat/completions' })

/** The result of a failed check also contains the error that the real call would return. */
const failure = { status: z.int(), error: z.string(), message: z.string() }

const passedOrNot = <Shape extends z.ZodRawShape>(shape: Shape) =>
  z.object({
    passed: z.boolean(),
    ...z.object(shape).partial().shape,
    ...z.object(failure).partial().shape,
  })

/** The check was skipped, because an earlier check failed or because this check does not apply. */
const skipped = z.object({ skipped: z.literal(true) })

const checkOf = <Shape extends z.ZodRawShape>(shape: Shape) => z.union([passedOrNot(shape), skipped])

/**
 * The response of POST /policy-check. `content` contains the findings of DLP and PII rules in the request. This member
 * is not part of the contract.
 */
export const PolicyCheckResponse = z
  .object({
    success: z.literal(true),
    dry_run: z.literal(true),
    allowed: z.boolean(),
    checks: z.object({
      input: passedOrNot({}),
      model_access: checkOf({}),
      smltp_policy: checkOf({
        applied: z.object({
          ...{ name: z.string(), canonical: z.string(), source: z.string(), policy_hash: z.string() },
          baseline: z.string().optional().meta({ description: 'The baseline that was joined with the policy' }),
        }),
      }),
      smltp_policy_access: checkOf({}),
      prompt_shield_authorization: checkOf({}),
      quota: checkOf({
        points_required: z.int(),
        points_remaining: z.int().nullable().meta({ description: 'Null if they are not limited' }),
      }),
      content: checkOf({
        would_block: z.boolean(),
        findings: z.array(
          z.object({
            kind: z.string(),
            rule: z.string(),
            types: z.record(z.string(), z.int()),
            action: z.enum(INCIDENT_ACTIONS),
            enforced: z.boolean(),
          }),
        ),
      }),
      prompt_shield_scan: checkOf({
        verdict: z.enum(SHIELD_VERDICTS),
        risk_score: z.int(),
        attack_category: z.string().nullable(),
        detections: z.int(),
        shield_mode: z.enum(SHIELD_MODES),
        would_block: z.boolean(),
        policy: AppliedShieldPolicy,
      }),
    }),
    plan: z.object({
      models: z.array(z.string()),
      failover_engine: z.boolean().meta({ description: 'Whether more than one model would be tried' }),
    }),
  })
  .meta({ id: 'PolicyCheckResponse' })
export type PolicyCheckResponse = z.infer<typeof PolicyCheckResponse>
