// Finds encrypted texts that no known key decrypts, for example after a restore with another master key.
import { sql } from 'kysely'
import type { Db } from '../db/db.ts'
import { keyIdOfSealed, type MasterKey, openSecret, SEALED_PREFIX_CHARS, SealBrokenError } from './seal.ts'
import type { SealedColumn, SealedRow } from './sealed-column.ts'

/** Rows per query. Between two queries, other writers can run. */
const BATCH_ROWS = 500
/** Rows of a column with long texts. Reading all stored answers would slow down the start of a large store. */
const LONG_ROWS = 1_000

/** How many texts of a column cannot be decrypted. */
export type Unopened = { table: string; column: string; count: number }

/**
 * Counts the texts of each column that cannot be decrypted. Short texts are decrypted. Of long texts, the first LONG_ROWS
 * are checked by the key that they name, or decrypted if they name none.
 */
export async function countUnopened(
  db: Db,
  masterKey: MasterKey,
  columns: readonly SealedColumn[],
  { isStopped }: { isStopped(): boolean },
): Promise<Unopened[]> {
  const found: Unopened[] = []
  for (const column of columns) {
    let count = 0
    let checked = 0
    let after: SealedRow | undefined
    do {
      if (isStopped()) return found
      const rows = await readHeads(db, column, after)
      for (const row of rows) if (!(await isOpened(db, masterKey, column, row))) count += 1
      checked += rows.length
      after = rows.length === BATCH_ROWS ? rows.at(-1) : undefined
    } while (after !== undefined && (column.isShort || checked < LONG_ROWS))
    if (count > 0) found.push({ table: column.table, column: column.column, count })
  }
  return found
}

/** Reads the keys of the next rows, and the beginning of their texts. */
async function readHeads(
  db: Db,
  { table, column, key, flag, only }: SealedColumn,
  after: SealedRow | undefined,
): Promise<readonly SealedRow[]> {
  const text = sql.ref(column)
  const keys = key.map((name) => sql.ref(name))
  const conditions = [
    sql`${text} is not null`,
    ...(flag === undefined ? [] : [sql`${sql.ref(flag)} = 1`]),
    ...(only === undefined ? [] : [sql`${keys[0]} = ${only}`]),
    ...(after === undefined ? [] : [sql`(${sql.join(keys)}) > (${sql.join(key.map((name) => sql.val(after[name])))})`]),
  ]
  const { rows } = await sql<SealedRow>`
    select ${sql.join(keys)}, substr(${text}, 1, ${sql.lit(SEALED_PREFIX_CHARS)}) as sealed_head
    from ${sql.table(table)} where ${sql.join(conditions, sql` and `)}
    order by ${sql.join(keys)} limit ${sql.lit(BATCH_ROWS)}`.execute(db)
  return rows
}

async function isOpened(db: Db, masterKey: MasterKey, column: SealedColumn, row: SealedRow): Promise<boolean> {
  const id = keyIdOfSealed(row.sealed_head ?? '')
  const location = column.locationOf(row)
  if (id !== undefined && masterKey.openingKeys(id, location.purpose).length === 0) return false
  if (id !== undefined && !column.isShort) return true
  const { rows } = await sql<{ sealed: string | null }>`
    select ${sql.ref(column.column)} as sealed from ${sql.table(column.table)}
    where ${sql.join(
      column.key.map((name) => sql`${sql.ref(name)} = ${row[name]}`),
      sql` and `,
    )}`.execute(db)
  const sealed = rows[0]?.sealed
  // The row was deleted, or its text removed, since its beginning was read.
  if (sealed === undefined || sealed === null) return true
  try {
    openSecret(masterKey, location, sealed)
    return true
  } catch (error) {
    if (error instanceof SealBrokenError) return false
    throw error
  }
}
