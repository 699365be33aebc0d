import { PAGE_LIMIT, SEARCH_CHARS } from '../../shared/spec-limits.ts'
import type { Pagination } from '../../shared/wire/common.ts'
import type { ApiRequest } from '../api/client.ts'
import { notAGateway } from '../api/http-errors.ts'
import type { CliContext } from '../context.ts'
import { CliError, EXIT } from '../errors.ts'
import type { View } from '../output/formats.ts'

type ListSource = {
  path: string
  /** Filters and order; page and limit are set here. */
  query?: ApiRequest['query']
  /** Where the answer has its rows. */
  itemsKey: string
  /** The answer keeps its rows and its numbers of pages in `data`. */
  isInData?: boolean
  /** The gateway has no pages of these, and no search: every answer holds them all. */
  isWhole?: boolean | undefined
  /** Waits when the gateway asks for it between two pages, instead of failing halfway. */
  isPatient?: boolean
}

/** Prints an administrator's list, page by page, and says on stderr when there are more. `--raw` prints every page. */
export async function listAll<Row extends object>(
  context: CliContext,
  { limit, all, view, ...source }: ListSource & { limit: number; all: boolean; view: View },
): Promise<void> {
  const [output, settings] = await Promise.all([context.output(), context.settings()])
  const wanted = all ? Number.POSITIVE_INFINITY : limit
  const rows: Row[] = []
  // One size for every page: a smaller last page would shift the numbering of pages.
  for await (const page of readPages<Row>(context, { ...source, isPatient: all }, Math.min(PAGE_LIMIT.max, wanted))) {
    rows.push(...page.rows.slice(0, wanted - rows.length))
    if (settings.raw) await output.list(rows, view, page.raw)
    if (rows.length < wanted && !page.isLast) continue
    if (rows.length < page.total) await context.note(`note: showing ${rows.length} of ${page.total}; add --all`)
    break
  }
  if (!settings.raw) await output.list(rows, view)
}

/** Every row that `matches`, in the order of the list; `search` lets the gateway leave out most of the others. */
export async function* findMatching<Row extends object>(
  context: CliContext,
  { search, matches, ...source }: ListSource & { search: string; matches(row: Row): boolean },
): AsyncGenerator<Row> {
  // Half of a pair at the cut would be no text; what is left still finds the whole.
  const part = search.slice(0, SEARCH_CHARS).replace(/[\uD800-\uDBFF]$/, '')
  const query = { ...source.query, search: part }
  for await (const { rows } of readPages<Row>(context, { ...source, query }, PAGE_LIMIT.max)) {
    yield* rows.filter(matches)
  }
}

/** The first row that `matches`, or undefined. */
export async function findOne<Row extends object>(
  context: CliContext,
  sought: ListSource & { search: string; matches(row: Row): boolean },
): Promise<Row | undefined> {
  for await (const row of findMatching<Row>(context, sought)) return row
  return undefined
}

type ListHolder = { pagination?: Pagination }
type ListPage<Row> = { rows: Row[]; total: number; isLast: boolean; raw: Buffer }

/** A list, page by page. */
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

/** A minute's limit is over within a minute; one of an hour is not worth waiting for. */
const PATIENCE_SECONDS = 65

/** Sends it again each time that the gateway says when it may come back, within the patience for one page. */
export async function waitingFor<T>(context: CliContext, send: () => Promise<T>): Promise<T> {
  for (let left = PATIENCE_SECONDS; ; ) {
    try {
      return await send()
    } catch (error) {
      const asked = error instanceof CliError ? error.retryAfterSeconds : undefined
      // Zero would be no pause at all.
      const seconds = Math.max(1, asked ?? Number.POSITIVE_INFINITY)
      if (seconds > left) throw error
      left -= seconds
      await context.note(`note: the gateway limits requests; going on in ${seconds} s`)
      const { pause } = await import('../api/client.ts')
      await pause(seconds * 1_000, context.io)
    }
  }
}
