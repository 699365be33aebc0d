import { z } from 'zod'
import { toPolicyId } from '../policy-id.ts'
import { MESSAGES_PER_REQUEST, NAME_CHARS, SHIELD_SNIPPETS } from '../spec-limits.ts'
import { ModelId } from './chat.ts'
import {
  closedObject,
  description,
  flag,
  label,
  oneOf,
  optional,
  readableName,
  readOnlyMembers,
  requestBody,
  storableText,
} from './common.ts'
import { SEVERITIES } from './incidents.ts'
import { SHIELD_SENSITIVITIES } from './keys.ts'

export const SHIELD_VERDICTS = ['ALLOW', 'LOG', 'FLAG', 'BLOCK'] as const
export const SHIELD_MODES = ['blocking', 'monitor'] as const
/** Each layer includes the previous layers. */
export const SHIELD_LAYERS = ['regex', 'heuristic', 'ml', 'llm'] as const
/** The origins of a text. The shield's classifier was trained with this order. */
export const SHIELD_SOURCES = ['user', 'tool', 'retrieved', 'system', 'output'] as const
/** Categories of attacks, and their descriptions for people. */
export const SHIELD_CATEGORIES = {
  prompt_injection: 'Prompt injection',
  jailbreak: 'Jailbreak',
  prompt_leaking: 'Leaking of the system prompt',
  role_hijack: 'Hijacking of the role',
  data_extraction: 'Extraction of data',
  indirect_injection: 'Injection through documents or tools',
  tool_poisoning: 'Hidden instructions in the definition of a tool',
  obfuscation: 'Hidden instructions',
} as const
export type ShieldCategory = keyof typeof SHIELD_CATEGORIES
export type ShieldVerdict = (typeof SHIELD_VERDICTS)[number]
export type ShieldSource = (typeof SHIELD_SOURCES)[number]
export type ShieldLayer = (typeof SHIELD_LAYERS)[number]

const CATEGORY_NAMES = Object.keys(SHIELD_CATEGORIES) as ShieldCategory[]
const verdictOfCategory = z.exactOptional(
  z.enum(SHIELD_VERDICTS, { error: `must be one of ${SHIELD_VERDICTS.join(', ')}` }),
)
const CATEGORY_VERDICTS = Object.fromEntries(CATEGORY_NAMES.map((name) => [name, verdictOfCategory])) as Record<
  ShieldCategory,
  typeof verdictOfCategory
>

/** A score from 0 to 100. */
const score = (name: string) =>
  z
    .int({ error: `${name} must be a whole number from 0 to 100` })
    .min(0, { error: `${name} must be 0 to 100` })
    .max(100, { error: `${name} must be 0 to 100` })

/** The members of a prompt shield policy. An omitted member has the same value as in the policy `balanced`. */
const policyFields = {
  sensitivity: oneOf('sensitivity', SHIELD_SENSITIVITIES),
  mode: oneOf('mode', SHIELD_MODES).meta({ description: '`monitor`: attacks are only recorded, not blocked' }),
  layers: z
    .array(oneOf('each of layers', SHIELD_LAYERS), { error: 'layers must be an array' })
    .min(1, { error: 'layers must name at least one layer' })
    .overwrite((layers) => SHIELD_LAYERS.filter((layer) => layers.includes(layer)))
    .meta({ description: '`llm` asks judgeModel when the other layers are uncertain' }),
  thresholds: closedObject(
    { log: score('thresholds.log'), flag: score('thresholds.flag'), block: score('thresholds.block') },
    'thresholds must be an object {log, flag, block}, or null for the defaults of the sensitivity',
  )
    .refine(({ log, flag: flagged, block }) => log <= flagged && flagged <= block, {
      error: 'thresholds must not descend from log to flag to block',
    })
    .nullable(),
  categories: closedObject(
    CATEGORY_VERDICTS,
    `categories must be an object whose keys are of ${CATEGORY_NAMES.join(', ')} and whose values are of ${SHIELD_VERDICTS.join(', ')}`,
  ).meta({ description: 'The strictest verdict that a category may get: LOG keeps it from being blocked' }),
  scanInput: flag('scanInput'),
  scanRetrieved: flag('scanRetrieved').meta({
    description: 'Passages of knowledge bases, documents in messages, and results and definitions of tools',
  }),
  scanOutput: flag('scanOutput'),
  allowOptOut: flag('allowOptOut').meta({ description: 'False overrides a key that permits it' }),
  judgeModel: ModelId.nullable().meta({ description: 'The model that the layer `llm` calls' }),
}

export const ShieldPolicyDocument = closedObject(
  {
    sensitivity: policyFields.sensitivity.default('balanced'),
    mode: policyFields.mode.default('blocking'),
    layers: policyFields.layers.default(['regex', 'heuristic', 'ml']),
    thresholds: policyFields.thresholds.default(null),
    categories: policyFields.categories.default({}),
    scanInput: policyFields.scanInput.default(true),
    scanRetrieved: policyFields.scanRetrieved.default(true),
    scanOutput: policyFields.scanOutput.default(true),
    allowOptOut: policyFields.allowOptOut.default(true),
    judgeModel: policyFields.judgeModel.default(null),
  },
  'policy must be an object',
)
  .refine(({ layers, judgeModel }) => !layers.includes('llm') || judgeModel !== null, {
    path: ['judgeModel'],
    error: 'judgeModel is required when layers has "llm"',
  })
  .meta({ id: 'ShieldPolicyDocument' })
export type ShieldPolicyDocument = z.output<typeof ShieldPolicyDocument>

const policyName = readableName('name', NAME_CHARS)
  .regex(/^[\p{L}\p{N}][\p{L}\p{M}\p{N} ()&+',.:_-]*$/u, {
    error: "name must begin with a letter or digit and contain only letters, digits, spaces and ( ) & + ' , . : _ -",
  })
  .overwrite((name) => name.replace(/ +/g, ' '))
  .refine((name) => toPolicyId(name) !== '', { error: 'name must contain a letter or digit' })

/** The body of POST /api/admin/prompt-shield-policies. */
export const CreateShieldPolicyRequest = requestBody('CreateShieldPolicyRequest', {
  name: policyName,
  description: description.default(''),
  policy: ShieldPolicyDocument,
})

/** The members of a prompt shield policy that requests cannot change. */
export const SHIELD_POLICY_READ_ONLY = ['id', 'name', 'type', 'createdAt', 'updatedAt'] as const

/**
 * The body of PUT …/{policyId}. Only the members in the body are changed. `policy` is replaced as a whole. The name
 * cannot change.
 */
export const UpdateShieldPolicyRequest = requestBody('UpdateShieldPolicyRequest', {
  description: optional(description),
  policy: optional(ShieldPolicyDocument),
  ...readOnlyMembers(SHIELD_POLICY_READ_ONLY),
})

export const ShieldPolicy = z
  .object({
    id: z.string(),
    name: z.string(),
    description: z.string(),
    type: z.enum(['built-in', 'custom']),
    policy: ShieldPolicyDocument,
    createdAt: z.string().optional().meta({ description: 'Present only for custom policies' }),
    updatedAt: z.string().optional().meta({ description: 'Present only for custom policies' }),
  })
  .meta({ id: 'ShieldPolicy' })
export type ShieldPolicy = z.output<typeof ShieldPolicy>

export const ListShieldPoliciesResponse = z.object({ success: z.literal(true), policies: z.array(ShieldPolicy) })
export const ShowShieldPolicyResponse = z.object({ success: z.literal(true), policy: ShieldPolicy })
/** The response of create and update. */
export const ShieldPolicyResponse = ShowShieldPolicyResponse.extend({ message: z.string() })

const scanOptions = closedObject(
  {
    sensitivityLevel: optional(policyFields.sensitivity),
    detectionLayers: optional(policyFields.layers),
    returnDetails: optional(flag('options.returnDetails')),
    policy: optional(label('options.policy', NAME_CHARS)).meta({
      description: 'A prompt shield policy that a chat of this key may request (ours)',
    }),
    source: optional(oneOf('options.source', SHIELD_SOURCES)).meta({
      description: 'The origin of the text; default: `user` (ours)',
    }),
    explain: optional(flag('options.explain')).meta({
      description: 'True also returns `explanation`: what each layer found in each piece of the text (ours)',
    }),
  },
  'options must be an object {sensitivityLevel, detectionLayers, returnDetails, policy, source, explain}',
)
const scanContext = closedObject(
  {
    chatbotId: optional(storableText('context.chatbotId')),
    conversationId: optional(storableText('context.conversationId')),
    language: optional(storableText('context.language')),
  },
  'context must be an object {chatbotId, conversationId, language}',
)

/**
 * The body of POST /prompt-shield/scan. The route and not this schema checks that `prompt` is a string, because the
 * error differs from other validation errors.
 */
export const ShieldScanRequest = requestBody('ShieldScanRequest', {
  prompt: z.unknown().optional(),
  context: optional(scanContext),
  options: optional(scanOptions),
})

const detail = z.object({
  layer: z.enum(SHIELD_LAYERS),
  pattern: z.string(),
  category: z.string(),
  confidence: z.number(),
  matched: z.string(),
})

const finding = {
  riskScore: z.int().meta({ description: '0 to 100' }),
  verdict: z.enum(SHIELD_VERDICTS),
  attackCategory: z.string().nullable(),
  confidence: z.number().meta({ description: '0 to 1' }),
}

const position = z.int().nullable()
const explainedPiece = z.object({
  start: position.meta({ description: 'Offset in UTF-16 code units. Null if the shield read a changed text here' }),
  end: position,
  hiddenBy: z.string().nullable().meta({ description: 'The encoding that hid this piece in the text' }),
  text: z.string().meta({ description: 'The beginning of the piece as the shield read it, at most 80 characters' }),
  words: z.int(),
  riskScore: finding.riskScore,
  probability: z
    .number()
    .nullable()
    .meta({ description: "The classifier's result, 0 to 1. Null without the layer `ml`" }),
  decides: z.boolean().meta({ description: 'True for the piece with the highest score' }),
  findings: z.array(detail),
})

const explanation = z.object({
  source: z.enum(SHIELD_SOURCES),
  pieces: z.array(explainedPiece).meta({
    description: 'The sentences of the text in their order, and the piece that decides, which may be larger',
  }),
  omittedPieces: z.int().meta({ description: 'How many sentences with lower scores are not shown' }),
  findings: z.array(detail).meta({ description: 'Findings about the whole text, such as an encoding' }),
  calibration: z.object({
    pieces: z.int().meta({ description: 'How many pieces of all sizes were scored' }),
    scoreAsOnePiece: z.number().nullable().meta({
      description: 'The score of the piece that decides if it were the whole text. Null without the layer `ml`',
    }),
  }),
  builtInScore: finding.riskScore.meta({ description: 'The score before the other models, 0 to 100' }),
  model: z
    .object({ probability: z.number().nullable().meta({ description: 'Null if the model did not answer' }) })
    .optional()
    .meta({ description: "The operator's model" }),
  judge: z
    .object({
      attack: z.boolean(),
      category: z.string().nullable(),
      confidence: z.number(),
      readAll: z.boolean().meta({ description: 'False if the judge read only a part of the suspicious text' }),
    })
    .optional(),
})

export const ShieldScanResponse = z.object({
  success: z.literal(true),
  ...finding,
  categoryLabel: z.string().nullable(),
  severity: z.enum(SEVERITIES),
  recommendation: z.string(),
  traceId: z.string(),
  latencyMs: z.number(),
  details: z.array(detail).optional(),
  explanation: explanation.optional(),
})

export const ShieldOutputRequest = requestBody('ShieldOutputRequest', {
  output: z.unknown().optional(),
  chatbotId: optional(storableText('chatbotId')),
  systemPromptSnippets: optional(
    z
      .array(z.string({ error: 'each of systemPromptSnippets must be a string' }), {
        error: 'systemPromptSnippets must be an array',
      })
      .max(SHIELD_SNIPPETS, { error: `systemPromptSnippets may have at most ${SHIELD_SNIPPETS} entries` }),
  ),
})

export const ShieldOutputResponse = z.object({
  success: z.literal(true),
  riskScore: finding.riskScore,
  verdict: finding.verdict,
  detections: z.array(
    z.object({
      type: z.string().meta({ example: 'system_prompt_leak' }),
      category: z.string(),
      confidence: z.number(),
      canaryId: z.string().nullable(),
    }),
  ),
  latencyMs: z.number(),
})

/** Clients send the messages of a chat as they have them, so a message may have further members. */
const scannedMessage = z.object(
  {
    role: z.string({ error: 'role must be a string' }),
    content: z.string({ error: 'content must be a string' }),
  },
  { error: 'each message must be an object {role, content}' },
)

export const ShieldConversationRequest = requestBody('ShieldConversationRequest', {
  messages: z
    .array(scannedMessage, { error: 'messages is required and must be an array' })
    .max(MESSAGES_PER_REQUEST, { error: `messages may have at most ${MESSAGES_PER_REQUEST} entries` }),
  chatbotId: optional(storableText('chatbotId')),
})

export const ShieldConversationResponse = z.object({
  success: z.literal(true),
  conversationRiskScore: z.int(),
  conversationVerdict: z.enum(SHIELD_VERDICTS),
  flaggedMessages: z.array(z.object({ messageIndex: z.int(), ...finding })),
  latencyMs: z.number(),
})
