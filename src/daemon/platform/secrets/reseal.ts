import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../db/db.ts'
import { engineOf } from '../db/engine.ts'
import type { Log } from '../log.ts'
import { ROTATION } from './rotation-row.ts'
import { type MasterKey, openSecret, SealBrokenError, sealedPrefix, sealSecret } from './seal.ts'
import type { SealedColumn, SealedRow } from './sealed-column.ts'

/** Rows per transaction. A stored answer may have some megabytes. */
const BATCH_ROWS = 20

/**
 * Encrypts every text again that another key than the sealing key has encrypted. Works in small transactions, so that
 * other writers can run between two of them. A row that changes at the same time keeps its change. Returns how many texts
 * were replaced. Undefined if another daemon is at work.
 */
export async function resealAll(
  db: Db,
  masterKey: MasterKey,
  columns: readonly SealedColumn[],
  { log, isStopped }: { log: Pick<Log, 'error'>; isStopped(): boolean },
): Promise<number | undefined> {
  let replaced = 0
  for (const column of columns) {
    let after: SealedRow | undefined
    do {
      if (isStopped()) return undefined
      const batch = await db.transaction().execute(async (tx) => {
        if (!(await isAlone(tx))) return undefined
        return resealBatch(tx, masterKey, column, after, log)
      })
      if (batch === undefined) return undefined
      replaced += batch.replaced
      after = batch.last
      await new Promise((resolve) => setImmediate(resolve))
    } while (after !== undefined)
  }
  return replaced
}

/** On PostgreSQL, only the daemon that holds the lock of the rotation works. */
async function isAlone(tx: Db): Promise<boolean> {
  if (engineOf(tx).name === 'sqlite') return true
  const { rows } = await sql`select id from master_key_rotation where id = ${ROTATION} for update skip locked`.execute(
    tx,
  )
  return rows.length > 0
}

async function resealBatch(
  tx: Db,
  masterKey: MasterKey,
  { table, column, key, flag, only, locationOf }: SealedColumn,
  after: SealedRow | undefined,
  log: Pick<Log, 'error'>,
): Promise<{ replaced: number; last: SealedRow | undefined }> {
  const text = sql.ref(column)
  const keys = key.map((name) => sql.ref(name))
  const [first] = keys
  const conditions = [
    sql`${text} is not null and ${text} not like ${`${sealedPrefix(masterKey.id)}%`}`,
    ...(flag === undefined ? [] : [sql`${sql.ref(flag)} = 1`]),
    ...(only === undefined ? [] : [sql`${first} = ${only}`]),
    ...(after === undefined ? [] : [sql`(${sql.join(keys)}) > (${sql.join(key.map((name) => sql.val(after[name])))})`]),
  ]
  const { rows } = await sql<SealedRow>`
    select ${sql.join([...keys, sql`${text} as ${sql.ref('sealed_text')}`])}
    from ${sql.table(table)} where ${and(conditions)}
    order by ${sql.join(keys)} limit ${sql.lit(BATCH_ROWS)}
  `.execute(tx)
  let replaced = 0
  for (const row of rows) {
    const { sealed_text: sealed = '' } = row
    const location = locationOf(row)
    let opened: string
    try {
      opened = openSecret(masterKey, location, sealed)
    } catch (error) {
      if (!(error instanceof SealBrokenError)) throw error
      // The text was unreadable before the rotation, so the rotation must not wait for it.
      log.error({ error }, 'a secret could not be sealed again')
      continue
    }
    const isSame = key.map((name) => sql`${sql.ref(name)} = ${row[name]}`)
    const { numAffectedRows = 0n } = await sql`
      update ${sql.table(table)} set ${text} = ${sealSecret(masterKey, location, opened)}
      where ${and([...isSame, sql`${text} = ${sealed}`])}
    `.execute(tx)
    replaced += Number(numAffectedRows)
  }
  return { replaced, last: rows.length === BATCH_ROWS ? rows.at(-1) : undefined }
}

const and = (conditions: readonly RawBuilder<unknown>[]): RawBuilder<unknown> => sql.join(conditions, sql` and `)
