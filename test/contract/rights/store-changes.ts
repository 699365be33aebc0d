import { sql } from 'kysely'
import type { Db } from '../../../src/daemon/platform/db/db.ts'
import type { TestEngine } from '../../engines.ts'
import { HIDDEN_COLUMNS, isInHand, SUMMARIES, TABLES } from './store-dump.ts'

/** Records every row that any connection inserts, updates or deletes. */
export type StoreChanges = {
  /** Clears the recorded changes. */
  forget(): Promise<void>
  /** Changes of this tenant's rows as `table operation`. Request counters are excluded. */
  of(tenantId: string, options?: { counters?: boolean }): Promise<string[]>
}

const OPERATIONS = ['insert', 'update', 'delete'] as const

/**
 * Adds triggers to every table of this store, except the summaries of the log. They run in the transaction of the change, so they also record changes
 * that a later change reverts. Columns that the dispatcher writes at any time are excluded, as in a dump.
 */
export async function watchChanges(db: Db, engine: TestEngine): Promise<StoreChanges> {
  const known: readonly string[] = TABLES.filter((name) => !SUMMARIES.has(name))
  const tables = (await db.introspection.getTables()).filter(({ name }) => known.includes(name))
  if (tables.length !== known.length) throw new Error('a table of the store would not be watched')
  const id = engine.name === 'sqlite' ? 'integer primary key' : 'bigserial primary key'
  const statements = [`create table store_changes (id ${id}, change_text text not null, owner text)`]
  if (engine.name === 'postgres') statements.push(POSTGRES_FUNCTION)
  for (const { name, columns } of tables) {
    const names = columns.map((column) => column.name)
    const owner = name === 'tenants' ? 'id' : names.includes('tenant_id') ? 'tenant_id' : undefined
    for (const operation of OPERATIONS) {
      const condition = operation === 'update' ? ` when (${differs(name, names, engine)})` : ''
      const begin = `create trigger watch_${name}_${operation} after ${operation} on ${name} for each row${condition}`
      const row = operation === 'delete' ? 'old' : 'new'
      const value = owner === undefined ? 'null' : `${row}.${owner}`
      statements.push(
        engine.name === 'postgres'
          ? `${begin} execute function store_change(${owner ?? ''})`
          : `${begin} begin insert into store_changes (change_text, owner) values ('${name} ${operation}', ${value}); end`,
      )
    }
  }
  for (const statement of statements) await sql.raw(statement).execute(db)

  return {
    async forget() {
      await sql`delete from store_changes`.execute(db)
    },
    async of(tenantId, { counters = false } = {}) {
      const { rows } = await sql<{ change_text: string }>`
        select change_text from store_changes where owner = ${tenantId} order by id`.execute(db)
      const texts = rows.map(({ change_text }) => change_text)
      return counters ? texts : texts.filter((text) => !text.startsWith('rate_counters '))
    },
  }
}

const POSTGRES_FUNCTION = `
  create function store_change() returns trigger language plpgsql as $$
  begin
    insert into store_changes (change_text, owner) values (
      tg_table_name || ' ' || lower(tg_op),
      case tg_op when 'DELETE' then to_jsonb(old) else to_jsonb(new) end ->> tg_argv[0]);
    return null;
  end $$`

function differs(table: string, columns: readonly string[], engine: TestEngine): string {
  const hidden = HIDDEN_COLUMNS[table] ?? []
  const differ = engine.name === 'sqlite' ? 'is not' : 'is distinct from'
  const anyOf = (names: readonly string[]) => names.map((name) => `old.${name} ${differ} new.${name}`).join(' or ')
  const shown = anyOf(columns.filter((name) => !hidden.includes(name)))
  return table === 'webhook_deliveries' ? `${shown} or (not (${isInHand.sql}) and (${anyOf(hidden)}))` : shown
}
