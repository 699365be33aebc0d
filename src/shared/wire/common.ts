import { z } from 'zod'

/** Optional members may also be sent as `null`, which many clients do for "not set". */
export const optional = <T extends z.ZodType>(schema: T) =>
  schema.nullish().transform((value) => (value === null ? undefined : value))

// In a pattern with the u flag, a surrogate that is half of a pair is a character of its own.
const UNSTORABLE = /[\0\p{Surrogate}]/u

/**
 * A string that may be stored or shown again. It holds no NUL and no half of a surrogate pair, which PostgreSQL refuses
 * and SQLite would change.
 */
export const storableText = (name: string) =>
  z
    .string({ error: `${name} must be a string` })
    .refine((value) => !UNSTORABLE.test(value), { error: `${name} must hold no NUL and no half of a surrogate pair` })

/** Flat error body (spec: Errors, flat shape). */
export const FlatError = z
  .looseObject({
    success: z.literal(false),
    error: z.string().meta({ description: 'What went wrong, as a stable label', example: 'Index required' }),
    message: z.string().meta({ description: 'What, where and what to do' }),
    request_id: z.string().optional(),
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
