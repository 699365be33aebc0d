// Moderation of texts, POST /v1/moderations.
import { z } from 'zod'
import { MODEL_ID_CHARS, MODERATION_INPUTS } from '../spec-limits.ts'
import { GatewayExtension, SHARED_CHAT_FIELDS } from './chat.ts'
import { anObject, optional, storableText } from './common.ts'

export const MODERATIONS_PATH = '/api/external/v1/moderations'

const { smltp_policy, prompt_shield, user_id } = SHARED_CHAT_FIELDS
const TextPart = z
  .object({ type: z.literal('text'), text: z.string() }, { error: 'each part must be {type: "text", text}' })
  .transform(({ text }) => text)

export const ModerationRequest = z
  .object(
    {
      ...{ smltp_policy, prompt_shield, user_id },
      model: optional(storableText('model').max(MODEL_ID_CHARS)).meta({
        description: '`<provider>/<model>`. With any other name, or without a model, the guards of the gateway answer',
      }),
      input: z
        .union([z.string(), z.array(z.union([z.string(), TextPart]))], {
          error: 'input must be a text, or an array of texts or {type: "text", text}. Guards cannot inspect images',
        })
        .transform((input) => (typeof input === 'string' ? [input] : input))
        .refine((texts) => texts.length > 0 && texts.length <= MODERATION_INPUTS, {
          error: `input must have 1 to ${MODERATION_INPUTS} texts`,
        }),
    },
    anObject,
  )
  .meta({ id: 'ModerationRequest' })
export type ModerationRequest = z.infer<typeof ModerationRequest>

/** The model in an answer of the gateway's own guards. */
export const GUARDS_MODEL = 'aigw-guards'

const Applied = GatewayExtension.pick({
  smltp_policy_used: true,
  smltp_policy_source: true,
  smltp_policy_hash: true,
  smltp_policy_baseline: true,
  prompt_shield_policy: true,
})

export const ModerationResponse = z
  .object({
    id: z.string(),
    model: z.string().meta({ description: `\`${GUARDS_MODEL}\`, or the model of the provider` }),
    results: z.array(
      z.object({
        flagged: z.boolean(),
        categories: z.record(z.string(), z.boolean()).meta({
          description:
            'Of the guards: `dlp`, `pii` and `prompt_shield`, each only if the policy or the key uses it, and what was found, such as `pii/EMAIL`',
        }),
        category_scores: z.record(z.string(), z.number()),
      }),
    ),
    gateway: z.union([GatewayExtension, Applied]),
  })
  .meta({ id: 'ModerationResponse' })
export type ModerationResponse = z.infer<typeof ModerationResponse>
