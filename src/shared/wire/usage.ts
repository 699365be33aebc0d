import { z } from 'zod'
import { objectId, storableText } from './common.ts'

/** The properties by which a usage report groups its sums. */
export const USAGE_GROUPS = ['day', 'user', 'key', 'model'] as const
export type UsageGroup = (typeof USAGE_GROUPS)[number]

const day = (name: string) => z.iso.date({ error: `${name} must be a day such as 2026-01-31` })

/** Query of GET /api/admin/usage. */
export const ReportUsageQuery = z.object({
  startDate: day('startDate').optional(),
  endDate: day('endDate').optional(),
  groupBy: z
    .string()
    .default('day')
    .transform((text) => [...new Set(text.split(','))])
    .pipe(
      z.array(
        z.enum(USAGE_GROUPS, { error: `groupBy must be a list of ${USAGE_GROUPS.join(', ')}, separated by commas` }),
      ),
    ),
  userId: objectId('userId').optional(),
  apiKeyId: objectId('apiKeyId').optional(),
  model: storableText('model').max(300, { error: 'model may have at most 300 characters' }).optional(),
})

const Sums = {
  requests: z.int().meta({ description: 'Billed requests' }),
  inputTokens: z.int(),
  outputTokens: z.int(),
  points: z.int(),
  dollars: z.number().meta({ description: 'The part that was paid in dollars' }),
  listPrice: z.number().meta({ description: 'The price in dollars of all tokens, however they were paid' }),
}

export const ReportUsageResponse = z.object({
  success: z.literal(true),
  period: z.object({ startDate: z.string(), endDate: z.string() }),
  rows: z.array(
    z.object({
      day: z.string().optional(),
      userId: z.string().optional().meta({ description: 'The billed account' }),
      apiKeyId: z.string().optional(),
      model: z.string().optional(),
      ...Sums,
    }),
  ),
  truncated: z.boolean().meta({ description: 'Whether more rows exist than were returned' }),
})
