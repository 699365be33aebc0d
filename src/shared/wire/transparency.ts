import { z } from 'zod'
import { PAGE_LIMIT, SEARCH_CHARS } from '../spec-limits.ts'
import { listQuery, oneOf, storableText } from './common.ts'
import { hash } from './evidence.ts'
import { period } from './logs.ts'

// Transparency: the log of the caller's tenant. Bodies have no `success`.

const INTEGRITY = ['maintained', 'violated'] as const

export const TransparencyStatusResponse = z.object({
  status: z.enum(['operational', 'degraded']).meta({
    description:
      '`degraded` if the last check found a violation, or if signed or published entries are missing from the store',
  }),
  timestamp: z.string(),
  auditSystem: z.object({
    totalEntries: z.int(),
    merkleRoot: hash('Over the checkpoints of all chains').nullable(),
    treeSize: z.int().meta({ description: 'Entries that the checkpoints cover' }),
    lastEntry: z.string().nullable().meta({ description: 'The time when it was recorded' }),
  }),
  chainIntegrity: z
    .object({
      status: z.enum([...INTEGRITY, 'pending']),
      validEntries: z.int(),
      invalidEntries: z.int(),
      verificationTime: z.string().nullable(),
    })
    .meta({ description: 'The last result of GET /transparency/chain-integrity; pending before its first run' }),
  transparency: z.object({
    publicVerification: z.boolean(),
    merkleProofs: z.boolean(),
    complianceExports: z.boolean(),
    apiVersion: z.literal('1.0'),
  }),
})

export const ENTRY_STATUSES = ['SUCCESS', 'ERROR'] as const
/** The status of an entry whose content was expunged. The outcome of such an entry is unknown. */
export const EXPUNGED_STATUS = 'EXPUNGED'

const FoundEntry = z
  .object({
    entryId: z.string(),
    timestamp: z.string(),
    event: z.string().meta({ description: 'Its type; `expunged` if its content was expunged', example: 'api_access' }),
    actor: z.string().nullable().meta({ description: 'Id of the user, or `operator`' }),
    status: z.enum([...ENTRY_STATUSES, EXPUNGED_STATUS]),
    details: z.looseObject({}).meta({ description: 'The whole entry; for a request, its receipt' }),
  })
  .meta({ id: 'FoundEntry' })
export type FoundEntry = z.infer<typeof FoundEntry>
const TransparencyEntry = FoundEntry.extend({
  signature: z.literal('present'),
  publicKey: z.literal('present'),
}).meta({ id: 'TransparencyEntry' })

export const ListEntriesQuery = listQuery(['timestamp'], PAGE_LIMIT.large)
  .pick({ page: true, limit: true })
  .extend({
    ...period,
    event: storableText('event').optional(),
    status: oneOf('status', ENTRY_STATUSES).optional(),
  })
export const ListEntriesResponse = z.object({
  page: z.int(),
  limit: z.int(),
  totalEntries: z.int(),
  totalPages: z.int(),
  hasNext: z.boolean(),
  hasPrev: z.boolean(),
  entries: z.array(TransparencyEntry),
})

export const ChainIntegrityResponse = z.object({
  timestamp: z.string(),
  verificationTime: z.number().meta({ description: 'Milliseconds' }),
  chainIntegrity: z.enum(INTEGRITY),
  statistics: z.object({ totalEntries: z.int(), validEntries: z.int(), invalidEntries: z.int() }),
  details: z
    .array(
      z.object({
        entryId: z.string().nullable(),
        signatureValid: z.boolean(),
        merkleValid: z.boolean(),
        chain: z.string(),
        seq: z.int(),
        problem: z.string(),
      }),
    )
    .meta({ description: 'The first missing or altered entry of each chain; empty if all are intact' }),
  merkleRoot: hash('The root over all chains, as in an export').nullable(),
  treeSize: z.int(),
})
export type ChainIntegrity = z.infer<typeof ChainIntegrityResponse>

export const SEARCH_FIELDS = ['all', 'event', 'actor', 'status', 'details'] as const

export const SearchEntriesQuery = listQuery(['timestamp'], PAGE_LIMIT.large)
  .pick({ limit: true })
  .extend({
    q: storableText('q')
      .min(1, { error: 'q must not be empty' })
      .max(SEARCH_CHARS, { error: `q may have at most ${SEARCH_CHARS} characters` }),
    field: oneOf('field', SEARCH_FIELDS).default('all'),
  })
export const SearchEntriesResponse = z.object({
  searchTerm: z.string(),
  field: z.enum(SEARCH_FIELDS),
  totalResults: z.int(),
  limit: z.int(),
  results: z.array(FoundEntry),
  timestamp: z.string(),
})

export const ComplianceReportQuery = z.object({ ...period, format: oneOf('format', ['json', 'csv']).default('json') })
export const ComplianceReportResponse = z.object({
  exportInfo: z.object({
    startDate: z.string(),
    endDate: z.string(),
    totalEntries: z.int(),
    format: z.literal('json'),
  }),
  merkleRoot: hash('As in GET /transparency/status').nullable(),
  chainIntegrity: z.enum([...INTEGRITY, 'pending']),
  timestamp: z.string(),
})
