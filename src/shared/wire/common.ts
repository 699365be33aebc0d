import { z } from 'zod'
import { suggestion } from '../nearest-name.ts'
import { ANSWER_TOKENS_MAX, IDEMPOTENCY_KEY_CHARS, NAME_CHARS, PAGE_LIMIT, SEARCH_CHARS } from '../spec-limits.ts'

/** Optional members may also be sent as `null`, which many clients do for "not set". */
export const optional = <T extends z.ZodType>(schema: T) =>
  schema.nullish().transform((value) => (value === null ? undefined : value))

/**
 * An object with these members and no others: what is misspelt must not look as if it had an effect. The refusal names the
 * unknown member, where it is, and the known one that it resembles.
 * @param mustBe the refusal of what is no object
 */
export const closedObject = <Shape extends z.core.$ZodLooseShape>(shape: Shape, mustBe: string) =>
  z.strictObject(shape, {
    error: (issue) => (issue.code === 'unrecognized_keys' ? unknownMember(issue) : mustBe),
  })

type UnknownKeys = Extract<z.core.$ZodRawIssue, { code: 'unrecognized_keys' }>

function unknownMember({ keys, path = [], inst }: UnknownKeys): string {
  const unknown = String(keys[0]).slice(0, NAME_CHARS)
  const known = Object.keys((inst as z.core.$ZodObject)._zod.def.shape)
  const where = path.length === 0 ? '' : ` in ${path.join('.')}`
  return `Unknown member "${unknown}"${where}${suggestion(unknown, known) || `; known members: ${known.join(', ')}`}`
}

/**
 * Members that only the gateway sets. A PUT accepts them, so that what GET shows can be edited and sent back; the handler
 * refuses other values (`changesIn`).
 */
export const readOnlyMembers = <const Name extends string>(names: readonly Name[]) =>
  Object.fromEntries(names.map((name) => [name, ReadOnly])) as Record<Name, typeof ReadOnly>

const ReadOnly = z
  .unknown()
  .optional()
  .meta({ readOnly: true, description: 'Read-only: accepted if it is as GET shows it' })

// Not a pattern with \p{Surrogate}, which takes three to eight times as long.
const isStorable = (text: string): boolean => text.isWellFormed() && !text.includes('\0')

/**
 * A string that may be stored or shown again. It holds no NUL and no half of a surrogate pair, which PostgreSQL refuses
 * and SQLite would change.
 */
export const storableText = (name: string) =>
  z
    .string({ error: `${name} must be a string` })
    .refine(isStorable, { error: `${name} must hold no NUL and no half of a surrogate pair` })

/** Flat error body (spec: Errors, flat shape). */
export const FlatError = z
  .looseObject({
    success: z.literal(false),
    error: z.string().meta({ description: 'What went wrong, as a stable label', example: 'Index required' }),
    message: z.string().meta({ description: 'What, where and what to do' }),
    request_id: z.string().optional(),
    bundle_id: z.string().optional().meta({ description: 'What the evidence of a refused request is called' }),
    reset_time: z.string().optional().meta({ description: 'ISO 8601; on 429' }),
  })
  .meta({ id: 'FlatError' })

/** Structured error body (spec: Errors, structured shape). */
export const StructuredError = z
  .object({
    success: z.literal(false),
    error: z.object({
      code: z.string().meta({ example: 'VALIDATION_ERROR' }),
      message: z.string(),
      details: z.looseObject({}).optional(),
      retryAfter: z.int().optional().meta({ description: 'Seconds' }),
    }),
    request_id: z.string().optional(),
  })
  .meta({ id: 'StructuredError' })

export const Pagination = z
  .object({ page: z.int(), limit: z.int(), total: z.int(), pages: z.int() })
  .meta({ id: 'Pagination' })
export type Pagination = z.infer<typeof Pagination>

/** 24 hex characters, as every id of ours has (named-endpoints §1). */
export const objectId = (name: string) =>
  z
    .string({ error: `${name} must be an id` })
    .regex(/^[0-9a-fA-F]{24}$/, { error: `${name} must be an id of 24 hex characters` })
    .transform((value) => value.toLowerCase())

/** A text that must be there and say something; kept trimmed. */
export const label = (name: string, maxChars: number) =>
  storableText(name)
    .trim()
    .min(1, { error: `${name} is required` })
    .max(maxChars, { error: `${name} may have at most ${maxChars} characters` })

/** The value of an Idempotency-Key header: visible ASCII. */
export const IdempotencyKey = z
  .string()
  .min(1)
  .max(IDEMPOTENCY_KEY_CHARS)
  .regex(/^[\x21-\x7e]+$/)

export const flag = (name: string) => z.boolean({ error: `${name} must be true or false` })

/** One of a closed list; the message names them all. */
export const oneOf = <const T extends readonly [string, ...string[]]>(name: string, values: T) =>
  z.enum(values, { error: `${name} must be one of ${values.join(', ')}` })

/** How many tokens an answer may have. */
export const tokenLimit = (name: string) =>
  z
    .int({ error: `${name} must be a whole number` })
    .min(1, { error: `${name} must be at least 1` })
    .max(ANSWER_TOKENS_MAX, { error: `${name} must be at most ${ANSWER_TOKENS_MAX}` })

/** A number in a query string; out of range it is clamped (named-endpoints §1.3). */
const pageNumber = (name: string, max: number) =>
  z.coerce
    .number({ error: `${name} must be a whole number` })
    .int({ error: `${name} must be a whole number` })
    .transform((value) => Math.min(max, Math.max(1, value)))

/** Query of an administrator's list (named-endpoints §1.3). `sortBy` takes the first of `sortable` by default. */
export const listQuery = <const T extends readonly [string, ...string[]]>(
  sortable: T,
  defaultLimit: number = PAGE_LIMIT.default,
) =>
  z.object({
    page: pageNumber('page', 1_000_000).default(1),
    limit: pageNumber('limit', PAGE_LIMIT.max).default(defaultLimit),
    search: storableText('search')
      .max(SEARCH_CHARS, { error: `search may have at most ${SEARCH_CHARS} characters` })
      .optional(),
    sortBy: oneOf('sortBy', sortable).default(sortable[0] as T[number]),
    sortOrder: oneOf('sortOrder', ['asc', 'desc']).default('desc'),
  })

/** Success without anything to show. */
export const DoneResponse = z.object({ success: z.literal(true), message: z.string() }).meta({ id: 'DoneResponse' })
