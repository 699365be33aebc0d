import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import { sql } from 'kysely'
import { VECTOR_CANDIDATES } from '../../../../shared/spec-limits.ts'
import type { Db } from '../../../platform/db/db.ts'
import { engineOf } from '../../../platform/db/engine.ts'
import { searchedVectors } from './searched-vectors.ts'
import { signatureDistances, signatureOf } from './signature.ts'
import type { Near, Space } from './space.ts'
import { cosine, fromArrayBytes, fromFloatBytes, toSignatureColumn } from './stored-vector.ts'
import type { UnitVector } from './unit-vector.ts'

/**
 * Passages per read. Processing one slice blocks the thread for some milliseconds. Other work can run between two
 * slices.
 */
const SLICE = 5_000

/** Implements `FindNearest` for a database without vector support. */
export async function nearestPlain(db: Db, space: Space, query: UnitVector, limit: number): Promise<Near[]> {
  const findCandidates = engineOf(db).name === 'sqlite' ? candidatesFromSqlite : candidatesFromPostgres
  const vectors = await readVectors(db, space, await findCandidates(db, space, signatureOf(query)))
  return vectors
    .map(({ passageId, vector }) => ({ passageId, cosine: cosine(vector, query) }))
    .sort((one, other) => other.cosine - one.cosine || one.passageId - other.passageId)
    .slice(0, limit)
}

/** On PostgreSQL, the database compares the signatures, because it can count differing bits. */
async function candidatesFromPostgres(db: Db, space: Space, signature: Buffer): Promise<number[]> {
  const rows = await searchedVectors(db, space)
    .select('passage_id')
    .orderBy(sql`bit_count(signature # cast(${toSignatureColumn(signature, 'postgres')} as bit varying))`)
    .orderBy('passage_id')
    .limit(VECTOR_CANDIDATES)
    .execute()
  return rows.map(({ passage_id }) => passage_id)
}

async function candidatesFromSqlite(db: Db, space: Space, signature: Buffer): Promise<number[]> {
  const nearest: { id: number; distance: number }[] = []
  for (let after = 0; ; ) {
    const { ids, signatures } = await readSignatures(db, space, after)
    // If distances are equal, the passage with the lower id ranks first, as in the database queries.
    const farthest = nearest[VECTOR_CANDIDATES - 1]?.distance ?? Number.POSITIVE_INFINITY
    for (const [at, distance] of signatureDistances(signatures, signature).entries()) {
      if (distance < farthest) nearest.push({ id: ids[at] as number, distance })
    }
    nearest.sort((one, other) => one.distance - other.distance || one.id - other.id).splice(VECTOR_CANDIDATES)
    if (ids.length < SLICE) return nearest.map(({ id }) => id)
    after = ids.at(-1) as number
    await yieldToEventLoop()
  }
}

/**
 * Reads each slice as a single row: creating an object per passage would take ten times as long as the search itself.
 */
async function readSignatures(db: Db, space: Space, after: number): Promise<{ ids: number[]; signatures: Buffer }> {
  const slice = searchedVectors(db, space)
    .select(['passage_id', 'signature'])
    .where('passage_id', '>', after)
    .orderBy('passage_id')
    .limit(SLICE)
  const { ids, signatures } = await db
    .selectFrom(slice.as('slice'))
    .select([
      sql<string | null>`group_concat(passage_id)`.as('ids'),
      sql<string | null>`group_concat(hex(signature), '')`.as('signatures'),
    ])
    .executeTakeFirstOrThrow()
  return { ids: ids === null ? [] : ids.split(',').map(Number), signatures: Buffer.from(signatures ?? '', 'hex') }
}

async function readVectors(
  db: Db,
  { modelId }: Space,
  ids: readonly number[],
): Promise<{ passageId: number; vector: UnitVector }[]> {
  if (ids.length === 0) return []
  const isSqlite = engineOf(db).name === 'sqlite'
  const rows = await db
    .selectFrom('passage_vectors')
    .select(['passage_id', sql<Uint8Array>`${sql.raw(isSqlite ? 'vector' : 'array_send(vector)')}`.as('bytes')])
    .where('model_id', '=', modelId)
    .where('passage_id', 'in', ids)
    .execute()
  const toVector = isSqlite ? fromFloatBytes : fromArrayBytes
  return rows.map(({ passage_id, bytes }) => ({ passageId: passage_id, vector: toVector(bytes) }))
}
