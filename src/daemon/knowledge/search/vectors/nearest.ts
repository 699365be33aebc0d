import { sql } from 'kysely'
import { VECTOR_CANDIDATES } from '../../../../shared/spec-limits.ts'
import type { Clock } from '../../../../shared/time.ts'
import type { Db } from '../../../platform/db/db.ts'
import { engineOf } from '../../../platform/db/engine.ts'
import type { Log } from '../../../platform/log.ts'
import { nearestPlain } from './nearest-plain.ts'
import { searchedVectors } from './searched-vectors.ts'
import { signatureOf } from './signature.ts'
import type { Near, Space } from './space.ts'
import { toFloatBytes, toSignatureColumn } from './stored-vector.ts'
import type { UnitVector } from './unit-vector.ts'

/** How long a vector extension is bypassed after a failure. */
export const EXTENSION_PAUSE_MS = 60_000

/**
 * Returns the passages whose vectors are nearest to the query's, nearest first. All passages are compared by signature.
 * Then the VECTOR_CANDIDATES nearest passages are compared by vector. For indexes of up to VECTOR_CANDIDATES passages,
 * the result is therefore exact.
 */
export type FindNearest = (space: Space, query: UnitVector, limit: number) => Promise<Near[]>

/**
 * The implementation of the search: a database extension, or our own code (decision 0020). All implementations return
 * the same results.
 */
export type NearestBy = 'sqlite-vec' | 'pgvector' | 'plain'

/**
 * Detects the database's vector support and uses it. Installs pgvector if permitted. The extension may fail later, for
 * example because a connection lacks it. If it fails, it is bypassed for EXTENSION_PAUSE_MS and then retried.
 */
export async function openNearest(
  db: Db,
  { clock, log }: { clock: Clock; log: Pick<Log, 'info' | 'warn'> },
): Promise<{ findNearest: FindNearest; by: NearestBy }> {
  const by = await findExtension(db)
  log.info({ by }, 'vector search is ready')
  if (by === 'plain') return { by, findNearest: (...asked) => nearestPlain(db, ...asked) }
  const withExtension = by === 'sqlite-vec' ? nearestBySqliteVec : nearestByPgvector
  let pausedUntil = Number.NEGATIVE_INFINITY
  return {
    by,
    async findNearest(...asked) {
      if (clock.monotonic() < pausedUntil) return nearestPlain(db, ...asked)
      try {
        return await withExtension(db, ...asked)
      } catch (error) {
        const found = await nearestPlain(db, ...asked)
        pausedUntil = clock.monotonic() + EXTENSION_PAUSE_MS
        log.warn({ error, by }, 'the vector extension failed; vector search continues without it for a while')
        return found
      }
    },
  }
}

async function findExtension(db: Db): Promise<NearestBy> {
  const succeeds = (probe: Promise<unknown>) =>
    probe.then(
      () => true,
      () => false,
    )
  if (engineOf(db).name === 'sqlite') {
    return (await succeeds(db.selectNoFrom(sql`vec_version()`.as('version')).execute())) ? 'sqlite-vec' : 'plain'
  }
  // A failure to install the extension is ignored, because it may already be installed. The statement fails if the
  // server does not have the extension on disk, or the user lacks the permission.
  await succeeds(sql`create extension if not exists vector`.execute(db))
  return (await succeeds(sql`select '{1}'::real[]::vector <=> '[1]', B'1' <~> B'1'`.execute(db))) ? 'pgvector' : 'plain'
}

async function nearestBySqliteVec(db: Db, space: Space, query: UnitVector, limit: number): Promise<Near[]> {
  // The statement must begin with SELECT, because the store routes SELECTs to a read connection.
  const rows = await db
    .with('candidates', () =>
      searchedVectors(db, space)
        .select('passage_id')
        .orderBy(sql`vec_distance_hamming(vec_bit(signature), vec_bit(${signatureOf(query)}))`)
        .orderBy('passage_id')
        .limit(VECTOR_CANDIDATES),
    )
    .selectFrom('candidates')
    .innerJoin('passage_vectors', (join) =>
      join
        .onRef('passage_vectors.passage_id', '=', 'candidates.passage_id')
        .on('passage_vectors.model_id', '=', space.modelId),
    )
    .select([
      'passage_vectors.passage_id as passageId',
      sql<number>`1 - vec_distance_cosine(passage_vectors.vector, ${toFloatBytes(query)})`.as('cosine'),
    ])
    .orderBy('cosine', 'desc')
    .orderBy('passageId')
    .limit(limit)
    .execute()
  return rows
}

async function nearestByPgvector(db: Db, space: Space, query: UnitVector, limit: number): Promise<Near[]> {
  const signature = toSignatureColumn(signatureOf(query), 'postgres')
  const candidates = searchedVectors(db, space)
    .select('passage_id')
    .orderBy(sql`signature::bit varying <~> cast(${signature} as bit varying)`)
    .orderBy('passage_id')
    .limit(VECTOR_CANDIDATES)
  const { rows } = await sql<Near>`
    with candidates as materialized ${candidates}
    select v.passage_id as "passageId", 1 - (v.vector::vector <=> cast(${`[${query.join(',')}]`} as vector)) as cosine
    from candidates c join passage_vectors v on v.passage_id = c.passage_id and v.model_id = ${space.modelId}
    order by cosine desc, "passageId"
    limit ${limit}
  `.execute(db)
  return rows
}
