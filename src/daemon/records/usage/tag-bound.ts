// Bounds the number of tags in the sums of usage. Callers choose their tags, and each tag needs rows that are kept.
import { sql } from 'kysely'
import { LRUCache } from 'lru-cache'
import { TAGS_PER_DAY } from '../../../shared/spec-limits.ts'
import { OTHER_TAGS } from '../../../shared/wire/tags.ts'
import type { Db } from '../../platform/db/db.ts'
import { engineOf } from '../../platform/db/engine.ts'
import type { UsageDayRow } from '../../platform/db/tables.ts'
import { sumUsage } from './usage-days.ts'

export type TagBound = {
  /**
   * Returns the sums with at most TAGS_PER_DAY tags per tenant and day, and all tags that have a budget. Further tags
   * become OTHER_TAGS. Call it in the transaction that stores the sums.
   */
  bound(tx: Db, sums: UsageDayRow[]): Promise<UsageDayRow[]>
}

/** Days of tenants whose tags are in memory. */
const DAYS_CACHED = 1_000
/** The first number of the advisory locks on days of tenants. It is arbitrary, but the same in every daemon. */
const TAGS_LOCK = 0x61697467

export function createTagBound(): TagBound {
  /** Tags that are stored for a day of a tenant. They need no query. */
  const stored = new LRUCache<string, Set<string>>({ max: DAYS_CACHED })

  /** Returns those of the new tags that get their own rows. */
  async function admit(tx: Db, { tenant_id, day }: UsageDayRow, fresh: readonly string[]): Promise<Set<string>> {
    const name = `${tenant_id} ${day}`
    let known = stored.get(name) ?? new Set()
    if (known.size < TAGS_PER_DAY) {
      // Daemons admit the tags of a day one after another. SQLite has only one writer.
      if (engineOf(tx).name === 'postgres')
        await sql`select pg_advisory_xact_lock(${TAGS_LOCK}, hashtext(${name}))`.execute(tx)
      known = await storedTags(tx, tenant_id, day)
      stored.set(name, known)
    }
    const room = Math.max(0, TAGS_PER_DAY - known.size)
    const unknown = fresh.filter((tag) => !known.has(tag))
    const further = unknown.slice(room)
    const own = further.length === 0 ? [] : await tagsWithBudget(tx, tenant_id, further)
    return new Set([...fresh.filter((tag) => known.has(tag)), ...unknown.slice(0, room), ...own])
  }

  return {
    async bound(tx, sums) {
      const fresh = new Map<string, { row: UsageDayRow; tags: Set<string> }>()
      for (const row of sums) {
        const name = `${row.tenant_id} ${row.day}`
        if (row.tag === '' || row.tag === OTHER_TAGS || stored.get(name)?.has(row.tag)) continue
        const found = fresh.get(name)
        if (found) found.tags.add(row.tag)
        else fresh.set(name, { row, tags: new Set([row.tag]) })
      }
      if (fresh.size === 0) return sums
      const admitted = new Map<string, Set<string>>()
      // The sums are sorted, so parallel daemons take the locks in the same order.
      for (const [name, { row, tags }] of fresh) admitted.set(name, await admit(tx, row, [...tags]))
      const isFurther = (row: UsageDayRow): boolean => {
        const name = `${row.tenant_id} ${row.day}`
        return fresh.get(name)?.tags.has(row.tag) === true && !admitted.get(name)?.has(row.tag)
      }
      return sumUsage(sums.map((row) => (isFurther(row) ? { ...row, tag: OTHER_TAGS } : row)))
    },
  }
}

async function storedTags(tx: Db, tenantId: string, day: string): Promise<Set<string>> {
  const rows = await tx
    .selectFrom('usage_days')
    .select('tag')
    .distinct()
    .where('tenant_id', '=', tenantId)
    .where('day', '=', day)
    .where('tag', 'not in', ['', OTHER_TAGS])
    .execute()
  return new Set(rows.map(({ tag }) => tag))
}

async function tagsWithBudget(tx: Db, tenantId: string, tags: readonly string[]): Promise<string[]> {
  const rows = await tx
    .selectFrom('budgets')
    .select('subject')
    .where('tenant_id', '=', tenantId)
    .where('scope', '=', 'tag')
    .where('subject', 'in', tags)
    .execute()
  return rows.map(({ subject }) => subject)
}
