import { z } from 'zod'
import { suggestion } from '../nearest-name.ts'
import {
  ANSWER_TOKENS_MAX,
  DESCRIPTION_CHARS,
  IDEMPOTENCY_KEY_CHARS,
  NAME_CHARS,
  PAGE_LIMIT,
  SEARCH_CHARS,
} from '../spec-limits.ts'

/** Optional members may also be `null`, because many clients send `null` for "not set". */
export const optional = <T extends z.ZodType>(schema: T) =>
  schema.nullish().transform((value) => (value === null ? undefined : value))

/**
 * An object schema that rejects unknown members. Otherwise a misspelt member would be silently ignored. The error names
 * the unknown member with its path, and the known member with the most similar name.
 * @param mustBe the error message if the value is not an object
 */
export const closedObject = <Shape extends z.core.$ZodLooseShape>(shape: Shape, mustBe: string) =>
  z.strictObject(shape, {
    error: (issue) => (issue.code === 'unrecognized_keys' ? unknownMember(issue) : mustBe),
  })

/**
 * Returns the error of the alternative that was probably intended: the first alternative if the value is a text,
 * otherwise the second.
 */
export function unionError({ input, ...issue }: { input?: unknown; errors?: unknown }, otherwise: string): string {
  const errors = issue.errors as z.core.$ZodIssue[][] | undefined
  const first = typeof input === 'object' && input !== null ? errors?.[1]?.[0] : undefined
  if (first === undefined) return otherwise
  return first.path.length === 0 ? first.message : `${first.path.join('.')}: ${first.message}`
}

/** The body of a request. In /openapi.json, its schema has the name `id`. */
export const requestBody = <Shape extends z.core.$ZodLooseShape>(id: string, shape: Shape) =>
  closedObject(shape, anObject.error).meta({ id })

/** The error message for a body that is not an object. */
export const anObject = { error: 'the body must be a JSON object' }

type UnknownKeys = Extract<z.core.$ZodRawIssue, { code: 'unrecognized_keys' }>

function unknownMember({ keys, path = [], inst }: UnknownKeys): string {
  const unknown = String(keys[0]).slice(0, NAME_CHARS)
  const known = Object.keys((inst as z.core.$ZodObject)._zod.def.shape)
  const where = path.length === 0 ? '' : ` in ${path.join('.')}`
  return `Unknown member "${unknown}"${where}${suggestion(unknown, known) || `; known members: ${known.join(', ')}`}`
}

/**
 * Members that only the gateway sets. Clients may edit the output of GET and send it back, so a PUT accepts these
 * members if they are unchanged. The handler rejects changed values (`changesIn`).
 */
export const readOnlyMembers = <const Name extends string>(names: readonly Name[]) =>
  Object.fromEntries(names.map((name) => [name, ReadOnly])) as Record<Name, typeof ReadOnly>

const ReadOnly = z
  .unknown()
  .optional()
  .meta({ readOnly: true, description: 'Read-only: accepted only if it is unchanged from GET' })

// An equivalent pattern with \p{Surrogate} would take three to eight times as long.
const isStorable = (text: string): boolean => text.isWellFormed() && !text.includes('\0')

/**
 * A string that may be stored or shown. NUL and lone surrogates are rejected, because PostgreSQL rejects them and
 * SQLite would change them.
 */
export const storableText = (name: string) =>
  z
    .string({ error: `${name} must be a string` })
    .refine(isStorable, { error: `${name} must not contain NUL or unpaired surrogates` })

/** A free text about a resource. It may be empty. */
export const description = storableText('description')
  .trim()
  .max(DESCRIPTION_CHARS, { error: `description may have at most ${DESCRIPTION_CHARS} characters` })

/** Flat error body. */
export const FlatError = z
  .looseObject({
    success: z.literal(false),
    error: z.string().meta({ description: 'The error, as a stable label', example: 'Index required' }),
    message: z.string().meta({ description: 'The fault, its location and the remedy' }),
    request_id: z.string().optional(),
    bundle_id: z.string().optional().meta({ description: 'The id of the evidence of a rejected request' }),
    reset_time: z.string().optional().meta({ description: 'ISO 8601; on 429' }),
  })
  .meta({ id: 'FlatError' })

/** Structured error body. */
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

/** 24 hex characters, the format of all our ids. */
export const objectId = (name: string) =>
  z
    .string({ error: `${name} must be an id` })
    .regex(/^[0-9a-fA-F]{24}$/, { error: `${name} must be an id of 24 hex characters` })
    .transform((value) => value.toLowerCase())

/** A required text. The text is trimmed and must not be blank. */
export const label = (name: string, maxChars: number) =>
  storableText(name)
    .trim()
    .min(1, { error: `${name} is required` })
    .max(maxChars, { error: `${name} may have at most ${maxChars} characters` })

/** Characters without a shape, marks that change the direction of a line, control characters, and the empty Braille. */
const UNREADABLE = /[\p{Default_Ignorable_Code_Point}\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\u2800]/u

/** A required name that people read. It is stored in the form NFKC, and every character of it can be seen. */
export const readableName = (name: string, maxChars: number) =>
  storableText(name)
    .overwrite((text) => text.normalize('NFKC'))
    .trim()
    .refine((text) => !UNREADABLE.test(text), { error: ({ input }) => unreadable(name, String(input)) })
    .min(1, { error: `${name} is required` })
    .max(maxChars, { error: `${name} may have at most ${maxChars} characters` })

function unreadable(name: string, text: string): string {
  const point = UNREADABLE.exec(text)?.[0].codePointAt(0) ?? 0
  const shown = point.toString(16).toUpperCase().padStart(4, '0')
  return `${name} must not contain the invisible or control character U+${shown}`
}

/** The value of an Idempotency-Key header: visible ASCII. */
export const IdempotencyKey = z
  .string()
  .min(1)
  .max(IDEMPOTENCY_KEY_CHARS)
  .regex(/^[\x21-\x7e]+$/)

export const flag = (name: string) => z.boolean({ error: `${name} must be true or false` })

/** How much a model reasons. Providers name the efforts; guards do not inspect the name. */
export const reasoningEffort = (name: string) =>
  z
    .string({ error: `${name} must be a string` })
    .regex(/^[a-z]{1,16}$/, { error: `${name} must be the name of an effort, such as "low" or "high"` })

/** One of a fixed list of values. The error message lists all allowed values. */
export const oneOf = <const T extends readonly [string, ...string[]]>(name: string, values: T) =>
  z.enum(values, { error: `${name} must be one of ${values.join(', ')}` })

/** The maximum number of tokens of an answer. */
export const tokenLimit = (name: string) =>
  z
    .int({ error: `${name} must be a whole number` })
    .min(1, { error: `${name} must be at least 1` })
    .max(ANSWER_TOKENS_MAX, { error: `${name} must be at most ${ANSWER_TOKENS_MAX}` })

/** A query-string number, clamped to the range. */
const pageNumber = (name: string, max: number) =>
  z.coerce
    .number({ error: `${name} must be a whole number` })
    .int({ error: `${name} must be a whole number` })
    .transform((value) => Math.min(max, Math.max(1, value)))

/** The query of a list for administrators. `sortBy` defaults to the first entry of `sortable`. */
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

/** A success without data. */
export const DoneResponse = z.object({ success: z.literal(true), message: z.string() }).meta({ id: 'DoneResponse' })
