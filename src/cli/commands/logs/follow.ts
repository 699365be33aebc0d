import { PAGE_LIMIT } from '../../../shared/spec-limits.ts'
import { DAY_MS, isoTime } from '../../../shared/time.ts'
import type { ActivityLog } from '../../../shared/wire/logs.ts'
import { type ApiRequest, pause } from '../../client.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT } from '../../errors.ts'
import { readPages } from '../../listing.ts'
import { LOGS_PATH } from './view.ts'

const POLL_MS = 5_000
const LONGEST_WAIT_MS = 30_000
/**
 * An entry has the time at which its request ended, and is in the log a moment later: so long may a commit take, and so far
 * may the clocks of two daemons be apart, until one is missed.
 */
const OVERLAP_MS = 15_000

/**
 * The last `lines` entries, then every one that is logged, each once and for good. Each question begins a little before the
 * newest entry that is known, and leaves out what was shown. Throws when the first question fails, and when the gateway
 * refuses this key later; a gateway that is away is asked again.
 */
export async function* followLogs(
  context: CliContext,
  { query, lines }: { query: ApiRequest['query']; lines: number },
): AsyncGenerator<ActivityLog> {
  const shown = new Shown()
  let startDate: string | undefined
  let backoffMs = POLL_MS
  let isAnswering = true
  while (true) {
    let waitMs = POLL_MS
    try {
      if (startDate === undefined) yield* await firstEntries(context, query, lines, shown)
      else yield* newEntries(context, { ...query, startDate }, shown)
      if (!isAnswering) await context.note('note: connected again')
      isAnswering = true
      backoffMs = POLL_MS
      startDate = shown.forgetBefore(OVERLAP_MS) ?? isoTime(context.io.clock.now() - QUIET_MS)
    } catch (error) {
      if (startDate === undefined || !isPassing(error)) throw error
      isAnswering = false
      const { retryAfterSeconds, message } = error
      if (retryAfterSeconds === undefined) {
        waitMs = backoffMs = Math.min(backoffMs * 2, LONGEST_WAIT_MS)
        await context.note(`note: the gateway does not answer; trying again in ${waitMs / 1000} s`)
      } else {
        // A limit of an hour or a day: whoever reads along is told which, and how long it stays quiet.
        waitMs = Math.max(POLL_MS, retryAfterSeconds * 1000)
        await context.note(`note: ${message}; going on at ${isoTime(context.io.clock.now() + waitMs)}`)
      }
    }
    await pause(waitMs, context.io)
  }
}

const PASSING: Set<number> = new Set([EXIT.unreachable, EXIT.upstream, EXIT.rateLimited])
const isPassing = (error: unknown): error is CliError => error instanceof CliError && PASSING.has(error.exitCode)

/** Where to begin when nothing is there: within the week that the gateway has just said is empty, whatever our clock says. */
const QUIET_MS = 6 * DAY_MS

/** The newest ones, the oldest of them first. Remembers all that the next question finds again. */
async function firstEntries(context: CliContext, query: ApiRequest['query'], lines: number, shown: Shown) {
  const newest: ActivityLog[] = []
  for await (const { rows } of pagesOf(context, { ...query, sortOrder: 'desc' })) {
    newest.push(...rows.filter((row) => shown.add(row)))
    const [first] = newest
    const last = newest.at(-1)
    if (first === undefined || last === undefined) break
    const reachesFar = Date.parse(first.timestamp) - Date.parse(last.timestamp) > OVERLAP_MS
    if (reachesFar && newest.length >= lines) break
  }
  return newest.slice(0, lines).reverse()
}

async function* newEntries(context: CliContext, query: ApiRequest['query'], shown: Shown) {
  for await (const { rows } of pagesOf(context, { ...query, sortOrder: 'asc' })) {
    for (const row of rows) if (shown.add(row)) yield row
  }
}

const pagesOf = (context: CliContext, query: ApiRequest['query']) =>
  readPages<ActivityLog>(
    context,
    { path: LOGS_PATH, itemsKey: 'logs', isInData: true, query: { ...query, sortBy: 'timestamp' }, isPatient: true },
    PAGE_LIMIT.max,
  )

/** Which entries were shown, and when each happened, as far back as the gateway is asked again. */
class Shown {
  readonly #times = new Map<string, number>()
  #newestMs = Number.NEGATIVE_INFINITY

  /** False for one that was there already. */
  add({ id, timestamp }: ActivityLog): boolean {
    if (this.#times.has(id)) return false
    const ms = Date.parse(timestamp)
    this.#times.set(id, ms)
    this.#newestMs = Math.max(this.#newestMs, ms)
    return true
  }

  /** Drops what is older than the newest by more than `ms`, and answers with that time; undefined when nothing was seen. */
  forgetBefore(ms: number): string | undefined {
    const since = this.#newestMs - ms
    for (const [id, at] of this.#times) if (at < since) this.#times.delete(id)
    return Number.isFinite(since) ? isoTime(since) : undefined
  }
}
