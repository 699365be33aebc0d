import { z } from 'zod'
import { objectId, storableText } from './common.ts'

/** The properties by which a usage report groups its sums. */
export const USAGE_GROUPS = ['day', 'user', 'key', 'model'] as const
export type UsageGroup = (typeof USAGE_GROUPS)[number]

const day = (name: string) => z.iso.date({ error: `${name} must be a day such as 2026-01-31` })

/** Query of GET /api/admin/usage/reconcile. */
export const ReconcileUsageQuery = z.object({
  month: z.string().regex(/^\d{4}-(0[1-9]|1[0-2])$/, { error: 'month must be a month such as 2026-01' }),
})

const BillDifferenceSchema = z
  .object({
    source: z.enum(['spend', 'report', 'log']).meta({
      description:
        '`spend`: the sums that limits use; `report`: the sums of GET /api/admin/usage; `log`: entries without a readable receipt',
    }),
    holder: z.enum(['user', 'key', 'chain']).meta({ description: '`chain` for entries of the log' }),
    id: z.string(),
    field: z.enum(['requests', 'nanos', 'points', 'missing', 'expunged', 'damaged']).meta({
      description:
        '`nanos`: billionths of a dollar; `missing`: deleted entries; `expunged`: entries without a payload; `damaged`: entries with an unreadable payload',
    }),
    stored: z.number().meta({ description: 'The stored sum, or the number of such entries' }),
    receipts: z.number().meta({ description: 'The sum over the receipts; 0 for such entries' }),
  })
  .meta({ id: 'BillDifference' })

export type BillDifference = z.infer<typeof BillDifferenceSchema>

export const ReconcileUsageResponse = z.object({
  success: z.literal(true),
  month: z.string(),
  compared_at: z.string(),
  entries: z.number().meta({ description: 'Entries of the log that were read' }),
  receipts: z.number().meta({ description: 'Receipts with a bill in this month' }),
  missing: z.number().meta({ description: 'Entries that the log must contain, but does not' }),
  unreadable: z.number().meta({ description: 'Entries without a payload, because it was expunged or is damaged' }),
  holders: z.number().meta({ description: 'Accounts and keys that were compared' }),
  differences: z.array(BillDifferenceSchema),
  truncated: z.boolean(),
})

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

/** The properties by which a report of usage and cost groups its sums. */
export const REPORT_GROUPS = ['day', 'tenant', 'user', 'key', 'provider', 'model', 'tag'] as const
export type ReportGroup = (typeof REPORT_GROUPS)[number]

/** Query of GET /usage/report. */
export const CostReportQuery = z.object({
  by: z
    .string()
    .default('day')
    .transform((text) => [...new Set(text.split(','))])
    .pipe(
      z.array(
        z.enum(REPORT_GROUPS, { error: `by must be a list of ${REPORT_GROUPS.join(', ')}, separated by commas` }),
      ),
    ),
  since: day('since').optional(),
  until: day('until').optional(),
})

const exact = (description: string) =>
  z.string().meta({ description: `${description}, as an exact decimal`, example: '12.000345' })

export const CostReportRow = z
  .object({
    day: z.string().optional(),
    tenantId: z.string().optional(),
    tenantName: z.string().nullable().optional(),
    userId: z.string().optional().meta({ description: 'The billed account' }),
    userName: z.string().nullable().optional().meta({ description: 'Null if the account was deleted' }),
    apiKeyId: z.string().optional(),
    apiKeyName: z.string().nullable().optional(),
    provider: z.string().optional(),
    model: z.string().optional().meta({ description: 'The model that answered' }),
    tag: z.string().optional().meta({ description: 'Empty for requests without a tag' }),
    requests: z.int().meta({ description: 'Billed requests' }),
    inputTokens: z.int(),
    outputTokens: z.int(),
    points: z.int(),
    dollars: exact('The part that was paid in dollars'),
    listPrice: exact('The price in dollars of all tokens, however they were paid'),
  })
  .meta({ id: 'CostReportRow' })
export type CostReportRow = z.infer<typeof CostReportRow>

export const CostReportResponse = z.object({
  success: z.literal(true),
  period: z.object({ since: z.string(), until: z.string() }).meta({ description: 'UTC days, both inclusive' }),
  by: z.array(z.enum(REPORT_GROUPS)),
  rows: z.array(CostReportRow),
  truncated: z.boolean().meta({ description: 'Whether more rows exist than were returned' }),
})
