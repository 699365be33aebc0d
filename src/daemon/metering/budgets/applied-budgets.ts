// Which budgets of groups, tags and tenants limit a request.
import { BUDGETS_CACHE_MS } from '../../../shared/spec-limits.ts'
import type { Clock } from '../../../shared/time.ts'
import type { BudgetScope } from '../../../shared/wire/budgets.ts'
import type { Db } from '../../platform/db/db.ts'
import { engineOf } from '../../platform/db/engine.ts'
import { createFreshCache } from '../../platform/db/fresh-cache.ts'
import type { BudgetRow } from '../../platform/db/tables.ts'
import { findGroupsOf, listBudgetRows } from './store.ts'

/** A budget that limits a request. */
export type AppliedBudget = { id: string; scope: BudgetScope; subject: string; limitNanos: number }

/** The request whose budgets are looked up. */
export type BudgetSubject = { tenantId: string; payerId: string; tag: string | undefined }

export type AppliedBudgets = {
  /** Returns the budgets that limit a request. Usually needs no query. */
  of(subject: BudgetSubject): readonly AppliedBudget[] | Promise<readonly AppliedBudget[]>
  /** Call this after a budget of the tenant, or the members of its groups, have changed. */
  forget(tenantId: string): void
}

/** The budgets of a tenant. `groups` and `tags` are undefined without such budgets. */
type OfTenant = {
  tenant: readonly AppliedBudget[]
  groups: ReadonlyMap<string, AppliedBudget> | undefined
  tags: ReadonlyMap<string, AppliedBudget> | undefined
}

export const NO_BUDGETS: readonly AppliedBudget[] = Object.freeze([])

/** The groups with a budget that have an account as a member. */
type Memberships = { tenantId: string; groups: ReadonlySet<string> }

/** Accounts whose groups are cached. */
const ACCOUNTS_CACHED = 10_000
/** Tenants whose budgets are cached. */
const TENANTS_CACHED = 10_000

export function createAppliedBudgets({ db, clock }: { db: Db; clock: Clock }): AppliedBudgets {
  // The only daemon of an SQLite store sees each change itself.
  const maxAgeMs = engineOf(db).name === 'postgres' ? BUDGETS_CACHE_MS : Number.POSITIVE_INFINITY
  const cache = createFreshCache<OfTenant>({
    clock,
    maxAgeMs,
    names: TENANTS_CACHED,
    load: async (tenantId) => toOfTenant(await listBudgetRows(db, tenantId)),
  })

  const memberships = createFreshCache<Memberships>({
    clock,
    maxAgeMs,
    names: ACCOUNTS_CACHED,
    load: async (name) => {
      const [tenantId = '', userId = ''] = name.split(' ')
      return { tenantId, groups: await findGroupsOf(db, tenantId, userId) }
    },
  })

  function choose(
    { tenant, groups, tags }: OfTenant,
    { tenantId, payerId, tag }: BudgetSubject,
  ): readonly AppliedBudget[] | Promise<readonly AppliedBudget[]> {
    const tagged = tag === undefined ? undefined : tags?.get(tag)
    const others = tagged ? [...tenant, tagged] : tenant
    if (!groups) return others
    const withGroups = ({ groups: ids }: Memberships) => [
      ...others,
      ...[...groups].filter(([id]) => ids.has(id)).map(([, budget]) => budget),
    ]
    const found = memberships.of(`${tenantId} ${payerId}`)
    return found instanceof Promise ? found.then(withGroups) : withGroups(found)
  }

  return {
    of(subject) {
      const known = cache.of(subject.tenantId)
      return known instanceof Promise ? known.then((found) => choose(found, subject)) : choose(known, subject)
    },
    forget(tenantId) {
      cache.forget(tenantId)
      memberships.forget((known) => known.tenantId === tenantId)
    },
  }
}

function toOfTenant(rows: readonly BudgetRow[]): OfTenant {
  const ofScope = (scope: BudgetScope): AppliedBudget[] =>
    rows
      .filter((row) => row.scope === scope)
      .map(({ id, subject, limit_nanos }) => ({ id, scope, subject, limitNanos: limit_nanos }))
  const bySubject = (budgets: AppliedBudget[]) =>
    budgets.length === 0 ? undefined : new Map(budgets.map((budget) => [budget.subject, budget]))
  const tenant = ofScope('tenant')
  return {
    tenant: tenant.length === 0 ? NO_BUDGETS : tenant,
    groups: bySubject(ofScope('group')),
    tags: bySubject(ofScope('tag')),
  }
}
