/** Reads and prints lists, page by page. */
import { PAGE_LIMIT, SEARCH_CHARS } from '../../shared/spec-limits.ts'
import type { Pagination } from '../../shared/wire/common.ts'
import type { ApiRequest } from '../api/client.ts'
import { notAGateway } from '../api/http-errors.ts'
import type { CliContext } from '../context.ts'
import { CliError, EXIT } from '../errors.ts'
import { pause } from '../io.ts'
import type { View } from '../output/formats.ts'

type ListSource = {
  path: string
  /** The filters and the order. `readPages` adds `page` and `limit`. */
  query?: ApiRequest['query']
  /** The member of the response that contains the rows. */
  itemsKey: string
  /** If true, the response contains rows and pagination inside `data`. */
  isInData?: boolean
  /** If true, the list has no pages and no search: one response contains all rows. */
  isWhole?: boolean | undefined
  /** If true, a page that exceeds a rate limit is retried after a wait instead of failing. */
  isPatient?: boolean
}

/** Prints a list. If there are more rows, prints a note on stderr. `--raw` prints every page. */
export async function listAll<Row extends object>(
  context: CliContext,
  { limit, all, view, ...source }: ListSource & { limit: number; all: boolean; view: View },
): Promise<void> {
  const [output, settings] = await Promise.all([context.output(), context.settings()])
  const wanted = all ? Number.POSITIVE_INFINITY : limit
  const rows: Row[] = []
  // All pages have the same size, because page numbers depend on the size.
  for await (const page of readPages<Row>(context, { ...source, isPatient: all }, Math.min(PAGE_LIMIT.max, wanted))) {
    rows.push(...page.rows.slice(0, wanted - rows.length))
    if (settings.raw) await output.list(rows, view, page.raw)
    if (rows.length < wanted && !page.isLast) continue
    if (rows.length < page.total) await context.note(`note: showing ${rows.length} of ${page.total}; add --all`)
    break
  }
  if (!settings.raw) await output.list(rows, view)
}

/**
 * Yields every row for which `matches` returns true, in the order of the list. The gateway filters the list by
 * `search`.
 */
export async function* findMatching<Row extends object>(
  context: CliContext,
  { search, matches, ...source }: ListSource & { search: string; matches(row: Row): boolean },
): AsyncGenerator<Row> {
  // If a name is long, searches for a prefix of it. The results also contain the whole name. The prefix must not end
  // within a surrogate pair.
  const part = search.slice(0, SEARCH_CHARS).replace(/[\uD800-\uDBFF]$/, '')
  const query = { ...source.query, search: part }
  for await (const { rows } of readPages<Row>(context, { ...source, query }, PAGE_LIMIT.max)) {
    yield* rows.filter(matches)
  }
}

/** Returns the first row for which `matches` returns true, or undefined if no row matches. */
export async function findOne<Row extends object>(
  context: CliContext,
  sought: ListSource & { search: string; matches(row: Row): boolean },
): Promise<Row | undefined> {
  for await (const row of findMatching<Row>(context, sought)) return row
  return undefined
}

type ListHolder = { pagination?: Pagination }
type ListPage<Row> = { rows: Row[]; total: number; isLast: boolean; raw: Buffer }

/** Yields a list, page by page. */
export async function* readPages<Row extends object>(
  context: CliContext,
  { path, query, itemsKey, isInData = false, isWhole = false, isPatient = false }: ListSource,
  limit: number,
): AsyncGenerator<ListPage<Row>> {
  const api = await context.api()
  for (let page = 1; ; page++) {
    const request = { method: 'GET', path, query: isWhole ? {} : { ...query, page, limit } }
    const send = () => api.send<ListHolder & { data?: ListHolder }>(request)
    const { body, raw, requestId } = await (isPatient ? waitingFor(context, send) : send())
    const holder = (isInData ? body.data : body) ?? {}
    const rows: unknown = Reflect.get(holder, itemsKey)
    const pagination = isWhole && Array.isArray(rows) ? { total: rows.length, pages: 1 } : holder.pagination
    if (!Array.isArray(rows) || !rows.every(isRow<Row>) || pagination === undefined) {
      throw notAGateway(EXIT.error, `${api.baseUrl} did not answer with a list of ${itemsKey}`, { requestId })
    }
    const { total, pages } = pagination
    const isLast = page >= pages || rows.length === 0
    yield { rows, total, isLast, raw }
    if (isLast) return
  }
}

const isRow = <Row extends object>(value: unknown): value is Row => typeof value === 'object' && value !== null

/** This wait is long enough for a limit per minute, but not for a limit per hour. */
const LONGEST_WAIT_SECONDS = 65

/** Retries after a rate limit while the total wait stays within LONGEST_WAIT_SECONDS. */
export async function waitingFor<T>(context: CliContext, send: () => Promise<T>): Promise<T> {
  for (let left = LONGEST_WAIT_SECONDS; ; ) {
    try {
      return await send()
    } catch (error) {
      const asked = error instanceof CliError ? error.retryAfterSeconds : undefined
      // Waits at least one second, because a `Retry-After` of 0 would cause a busy loop.
      const seconds = Math.max(1, asked ?? Number.POSITIVE_INFINITY)
      if (seconds > left) throw error
      left -= seconds
      await context.note(`note: the gateway limits requests; continuing in ${seconds} s`)
      await pause(seconds * 1_000, context.io)
    }
  }
}
