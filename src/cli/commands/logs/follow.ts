/** Follows the log. */
import { PAGE_LIMIT } from '../../../shared/spec-limits.ts'
import { isoTime } from '../../../shared/time.ts'
import type { ActivityLog } from '../../../shared/wire/logs.ts'
import type { ApiRequest } from '../../api/client.ts'
import { notAGateway } from '../../api/http-errors.ts'
import type { CliContext } from '../../context.ts'
import { EXIT, isPassing } from '../../errors.ts'
import { pause } from '../../io.ts'
import { readPages, waitingFor } from '../../resources/listing.ts'

export const LOGS_PATH = 'activity-logs'

const POLL_MS = 5_000
const LONGEST_WAIT_MS = 30_000

/**
 * Yields the last `lines` entries, then every new entry, each once. Detects new entries by their position in the chains
 * and not by their time. Throws an error if the first request fails, or if the gateway later rejects this key. If the
 * gateway is unreachable, retries until it responds.
 */
export async function* followLogs(
  context: CliContext,
  { query, lines }: { query: ApiRequest['query']; lines: number },
): AsyncGenerator<ActivityLog> {
  // Reads the position before the last lines. If an entry is logged between the two requests, both responses contain
  // it, but it is shown only once.
  let position = (await readAfter(context, query, 'now')).position
  const last = await lastEntries(context, query, lines)
  const shown = new Set(last.map(({ id }) => id))
  yield* last
  let backoffMs = POLL_MS
  let isAnswering = true
  for (let waitMs = POLL_MS; ; ) {
    await pause(waitMs, context.io)
    waitMs = POLL_MS
    try {
      for (let isFull = true; isFull; ) {
        const { rows, position: next } = await readAfter(context, query, position)
        for (const row of rows) if (!shown.has(row.id)) yield row
        position = next
        isFull = rows.length >= PAGE_LIMIT.max
      }
      if (!isAnswering) await context.note('note: connected again')
      isAnswering = true
      backoffMs = POLL_MS
    } catch (error) {
      if (!isPassing(error)) throw error
      isAnswering = false
      const { retryAfterSeconds, message } = error
      if (retryAfterSeconds === undefined) {
        waitMs = backoffMs = Math.min(backoffMs * 2, LONGEST_WAIT_MS)
        await context.note(`note: the gateway does not answer; retrying in ${waitMs / 1000} s`)
      } else {
        // The wait may be long if a limit per hour or per day is reached. The note therefore states the limit and the
        // time when the wait ends.
        waitMs = Math.max(POLL_MS, retryAfterSeconds * 1000)
        await context.note(`note: ${message}; continuing at ${isoTime(context.io.clock.now() + waitMs)}`)
      }
    }
  }
}

/** Returns the newest entries, in chronological order. */
async function lastEntries(context: CliContext, query: ApiRequest['query'], lines: number): Promise<ActivityLog[]> {
  const newest: ActivityLog[] = []
  const source = { path: LOGS_PATH, itemsKey: 'logs', isInData: true, isPatient: true }
  const newestFirst = { ...query, sortBy: 'timestamp', sortOrder: 'desc' }
  if (lines === 0) return newest
  for await (const { rows } of readPages<ActivityLog>(context, { ...source, query: newestFirst }, PAGE_LIMIT.max)) {
    newest.push(...rows)
    if (newest.length >= lines) break
  }
  return newest.slice(0, lines).reverse()
}

type NewEntries = { data?: { logs?: ActivityLog[]; position?: string } }

/** Returns the entries after a position, and the new position after the last entry. */
async function readAfter(context: CliContext, query: ApiRequest['query'], after: string) {
  const api = await context.api()
  const request = { method: 'GET', path: LOGS_PATH, query: { ...query, after, limit: PAGE_LIMIT.max } }
  const { body, requestId } = await waitingFor(context, () => api.send<NewEntries>(request))
  const { logs: rows, position } = body.data ?? {}
  if (Array.isArray(rows) && typeof position === 'string') return { rows, position }
  throw notAGateway(EXIT.error, `${api.baseUrl} did not answer with new entries and a position`, { requestId })
}
