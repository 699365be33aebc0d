import type { z } from 'zod'
import { invalidField } from '../../../shared/errors.ts'
import { LOG_COLUMNS, toCsvLine } from '../../../shared/evidence/csv.ts'
import { exportRoot } from '../../../shared/evidence/export-root.ts'
import { PAGE_LIMIT } from '../../../shared/spec-limits.ts'
import { type Clock, isoTime } from '../../../shared/time.ts'
import { EXPUNGED } from '../../../shared/wire/logs.ts'
import {
  ChainIntegrityResponse,
  ComplianceReportQuery,
  ComplianceReportResponse,
  ENTRY_STATUSES,
  EXPUNGED_STATUS,
  type FoundEntry,
  ListEntriesQuery,
  ListEntriesResponse,
  type SEARCH_FIELDS,
  SearchEntriesQuery,
  SearchEntriesResponse,
  TransparencyStatusResponse,
} from '../../../shared/wire/transparency.ts'
import type { Db } from '../../platform/db/db.ts'
import { toPagination } from '../../platform/db/list-page.ts'
import type { EvidenceEntryRow } from '../../platform/db/tables.ts'
import { type Route, reply, route } from '../../platform/http/route.ts'
import type { EntryFilter } from './entry-filter.ts'
import { listEntries } from './entry-list.ts'
import { payloadOf } from './entry-payload.ts'
import type { Integrity } from './integrity.ts'
import { windowOf } from './log-window.ts'
import { acknowledgedChains } from './losses.ts'
import { listChains, readChain } from './store.ts'

/** The maximum number of rows of a compliance report in CSV. */
export const COMPLIANCE_REPORT_ROWS = 10_000

export type TransparencyDeps = {
  db: Db
  clock: Clock
  integrity: Integrity
  /**
   * Whether evidence of any tenant is lost and no operator has acknowledged the loss, or whether the comparison at start
   * has failed. Resolves when that comparison is complete.
   */
  isDoubted(): Promise<boolean>
}

/** Defines the routes with which administrators view and verify the log of their tenant. */
export function transparencyRoutes({ db, clock, integrity, isDoubted }: TransparencyDeps): Route[] {
  const common: Pick<Route, 'method' | 'access' | 'rate' | 'errors' | 'tags'> = {
    method: 'GET',
    access: 'smltp-security',
    rate: 'unmetered',
    errors: 'structured',
    tags: ['Transparency'],
  }
  return [
    route({
      ...common,
      path: '/api/external/transparency/status',
      summary: 'Show the size of the log and the result of its last check',
      responses: { 200: { description: 'The status', schema: TransparencyStatusResponse } },
      async handle({ caller: { tenantId } }) {
        const chains = await listChains(db, tenantId)
        const known = integrity.last(tenantId)
        const acknowledged = await acknowledgedChains(db, tenantId)
        const isViolated = known?.details.some(({ chain }) => !acknowledged.has(chain)) ?? false
        const isCut = chains.some(
          ({ chain, size, checkpoint }) => (checkpoint?.tree_size ?? 0) > size && !acknowledged.has(chain),
        )
        const isDegraded = isCut || isViolated || (await isDoubted())
        return reply(200, {
          status: isDegraded ? 'degraded' : 'operational',
          timestamp: isoTime(clock.now()),
          auditSystem: {
            totalEntries: chains.reduce((sum, { size }) => sum + size, 0),
            merkleRoot: await rootOfCheckpoints(db, tenantId, chains),
            treeSize: chains.reduce((sum, { checkpoint }) => sum + (checkpoint?.tree_size ?? 0), 0),
            lastEntry: await lastEntryAt(db, tenantId),
          },
          chainIntegrity: {
            status: known?.chainIntegrity ?? 'pending',
            validEntries: known?.statistics.validEntries ?? 0,
            invalidEntries: known?.statistics.invalidEntries ?? 0,
            verificationTime: known?.timestamp ?? null,
          },
          transparency: { publicVerification: true, merkleProofs: true, complianceExports: true, apiVersion: '1.0' },
        } satisfies z.input<typeof TransparencyStatusResponse>)
      },
    }),
    route({
      ...common,
      path: '/api/external/transparency/entries',
      summary: 'List the entries of the log, newest first',
      query: ListEntriesQuery,
      responses: { 200: { description: 'One page', schema: ListEntriesResponse } },
      async handle({ caller: { tenantId }, query }) {
        const { event, status, startDate, endDate, ...page } = query
        const filter = { startDate, endDate, ...ofEvent(event), ...ofStatus(status) }
        const { rows, total } = await listEntries(db, tenantId, filter, { ...page, sortOrder: 'desc' })
        const { pages } = toPagination(page, total)
        return reply(200, {
          ...page,
          totalEntries: total,
          totalPages: pages,
          hasNext: page.page < pages,
          hasPrev: page.page > 1,
          entries: rows.map((row) => ({ ...toFoundEntry(row), signature: 'present', publicKey: 'present' })),
        } satisfies z.input<typeof ListEntriesResponse>)
      },
    }),
    route({
      ...common,
      path: '/api/external/transparency/chain-integrity',
      summary: 'Verify the complete log: every hash, signature and checkpoint',
      responses: { 200: { description: 'The result of the verification', schema: ChainIntegrityResponse } },
      handle: async ({ caller: { tenantId } }) => reply(200, await integrity.check(tenantId)),
    }),
    route({
      ...common,
      path: '/api/external/transparency/search',
      summary: 'Search the entries for a text',
      query: SearchEntriesQuery,
      responses: { 200: { description: 'The newest matching entries', schema: SearchEntriesResponse } },
      async handle({ caller: { tenantId }, query: { q, field, limit } }) {
        const { rows, total } = await listEntries(db, tenantId, SEARCHES[field](q), {
          page: 1,
          limit,
          sortOrder: 'desc',
        })
        return reply(200, {
          searchTerm: q,
          field,
          totalResults: total,
          limit,
          results: rows.map(toFoundEntry),
          timestamp: isoTime(clock.now()),
        } satisfies z.input<typeof SearchEntriesResponse>)
      },
    }),
    route({
      ...common,
      path: '/api/external/transparency/compliance-report',
      summary: 'Export the entries of a period as CSV, or count them',
      query: ComplianceReportQuery,
      responses: {
        200: { description: 'The report', schema: ComplianceReportResponse, text: 'text/csv' },
      },
      async handle({ caller: { tenantId }, query: { format, ...period } }) {
        const { shown, filter } = windowOf(period, clock.now())
        const found = await listEntries(db, tenantId, filter, { page: 1, limit: 1, sortOrder: 'asc' })
        if (format === 'csv') {
          if (found.total > COMPLIANCE_REPORT_ROWS) throw tooLong(found.total, shown.startDate)
          const rows = await allOf(db, tenantId, filter, found.total)
          return reply(200, [LOG_COLUMNS, ...rows.map(toFoundEntry).map(toCells)].map(toCsvLine).join(''), CSV_HEADERS)
        }
        return reply(200, {
          exportInfo: { ...shown, totalEntries: found.total, format },
          merkleRoot: await rootOfCheckpoints(db, tenantId, await listChains(db, tenantId)),
          chainIntegrity: integrity.last(tenantId)?.chainIntegrity ?? 'pending',
          timestamp: isoTime(clock.now()),
        } satisfies z.input<typeof ComplianceReportResponse>)
      },
    }),
  ]
}

type Chains = Awaited<ReturnType<typeof listChains>>

/**
 * Returns the root over all checkpoints, computed like the root of an export. Returns null if there are no checkpoints.
 */
async function rootOfCheckpoints(db: Db, tenantId: string, chains: Chains): Promise<string | null> {
  const covered = await Promise.all(
    chains.map(async ({ chain, checkpoint }) => {
      if (!checkpoint) return []
      const { tree_size: size, root } = checkpoint
      const [last] = await readChain(db, tenantId, chain, { from: size - 1, limit: 1 })
      // A chain with missing entries is skipped: this route is not a proof, and a verification of the log reports
      // missing entries.
      return last ? [{ chain, size, head: last.entry_hash, root }] : []
    }),
  )
  const parts = covered.flat()
  return parts.length === 0 ? null : exportRoot(parts).toString('hex')
}

async function lastEntryAt(db: Db, tenantId: string): Promise<string | null> {
  const last = await db
    .selectFrom('evidence_entries')
    .select('created_at')
    .where('tenant_id', '=', tenantId)
    .orderBy('created_at', 'desc')
    .limit(1)
    .executeTakeFirst()
  return last?.created_at ?? null
}

const [SUCCESS, ERROR] = ENTRY_STATUSES

function toFoundEntry(entry: EvidenceEntryRow): FoundEntry {
  const payload = payloadOf(entry)
  return {
    entryId: entry.id,
    timestamp: entry.created_at,
    event: payload?.type ?? EXPUNGED,
    actor: payload ? (payload.user_id ?? payload.actor) : null,
    status: payload ? (payload.result === 'success' ? SUCCESS : ERROR) : EXPUNGED_STATUS,
    details: payload ?? {},
  }
}

const ofEvent = (event: string | undefined): EntryFilter => (event === undefined ? {} : { types: [event] })

function ofStatus(status: string | undefined): EntryFilter {
  if (status === undefined) return {}
  return status === SUCCESS ? { result: 'success' } : { notResult: 'success' }
}

const SEARCHES: Record<(typeof SEARCH_FIELDS)[number], (text: string) => EntryFilter> = {
  all: (search) => ({ search, searchIn: ['type', 'actor', 'description', 'operation', 'endpoint'] }),
  event: (search) => ({ search, searchIn: ['type'] }),
  actor: (search) => ({ search, searchIn: ['actor'] }),
  // The status `ERROR` stands for the results `denied` and `failure`, so a search for `ERROR` matches both.
  status: (text) => (text.toUpperCase() === ERROR ? ofStatus(ERROR) : { result: text.toLowerCase() }),
  details: (search) => ({ search, searchIn: ['description', 'operation', 'endpoint'] }),
}

const CSV_HEADERS = {
  'content-type': 'text/csv; charset=utf-8',
  'content-disposition': 'attachment; filename="compliance-report.csv"',
  'x-content-type-options': 'nosniff',
}

const toCells = ({ entryId, timestamp, event, actor, status, details }: FoundEntry): string[] => [
  entryId,
  timestamp,
  event,
  actor ?? '',
  status,
  JSON.stringify(details),
]

/** Reads the entries page by page, so that each statement is short. */
async function allOf(db: Db, tenantId: string, filter: EntryFilter, total: number): Promise<EvidenceEntryRow[]> {
  const rows: EvidenceEntryRow[] = []
  for (let page = 1; rows.length < total; page += 1) {
    const found = await listEntries(db, tenantId, filter, { page, limit: PAGE_LIMIT.max, sortOrder: 'asc' })
    rows.push(...found.rows)
    if (found.rows.length < PAGE_LIMIT.max) break
  }
  return rows
}

const tooLong = (total: number, startDate: string) =>
  invalidField(
    'startDate',
    `The period has ${total} entries; a report may have at most ${COMPLIANCE_REPORT_ROWS}. Choose a shorter period, or use "aigw audit export".`,
    startDate,
  )
