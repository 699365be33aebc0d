import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { chooseModel } from '../../../../../src/daemon/knowledge/search/vectors/models.ts'
import { EXTENSION_PAUSE_MS, openNearest } from '../../../../../src/daemon/knowledge/search/vectors/nearest.ts'
import { nearestPlain } from '../../../../../src/daemon/knowledge/search/vectors/nearest-plain.ts'
import type { Space } from '../../../../../src/daemon/knowledge/search/vectors/space.ts'
import { cosine } from '../../../../../src/daemon/knowledge/search/vectors/stored-vector.ts'
import type { UnitVector } from '../../../../../src/daemon/knowledge/search/vectors/unit-vector.ts'
import { openDatabase } from '../../../../../src/daemon/platform/db/database.ts'
import type { Db } from '../../../../../src/daemon/platform/db/db.ts'
import { migrateDatabase } from '../../../../../src/daemon/platform/db/migrate.ts'
import { postgresEngine, sqliteEngine } from '../../../../engines.ts'
import { createFakeClock } from '../../../../fake-clock.ts'
import { sharedResources } from '../../../../shared-resources.ts'
import { insertNamedIndex, insertTenant, store as storePassages } from '../../indexes/trained-store.ts'
import { openPgvectorStore } from './pgvector-server.ts'
import { createRandom, randomVector, storeVectors } from './vector-rows.ts'

type Store = { db: Db; close(): Promise<void> }

async function openSqliteWithVectors(): Promise<Store> {
  const dataDir = await mkdtemp(join(tmpdir(), 'aigw-test-'))
  const db = await openDatabase({ kind: 'sqlite', dataDir }, { withVectors: true })
  await migrateDatabase(db)
  return {
    db,
    async close() {
      await db.destroy()
      await rm(dataDir, { recursive: true })
    },
  }
}

const STORES: readonly [by: string, open: () => Promise<Store>][] = [
  ['sqlite-vec', openSqliteWithVectors],
  ['pgvector', openPgvectorStore],
  ['plain', () => sqliteEngine.open()],
  ['plain', () => postgresEngine.open()],
]

const DIMENSIONS = 40

/** Passages of several tenants with the same vectors under different ids; returns those of tenant a. */
async function fill(
  db: Db,
  modelId: number,
  { count = 300, tenants = ['a', 'b'] } = {},
): Promise<Map<number, UnitVector>> {
  const random = createRandom(7)
  const all = Array.from({ length: count }, () => randomVector(random, DIMENSIONS))
  const passages = all.map((_, position) => ({ position, headings: '', body: `passage ${position}` }))
  const vectors = new Map<number, UnitVector>()
  for (const tenant of tenants) {
    const index = tenant === 'a' ? 'zoo' : 'farm'
    await insertTenant(db, tenant)
    await insertNamedIndex(db, tenant, index)
    await storePassages(db, { tenantId: tenant, indexId: index }, { source: 'all.md' }, passages)
    const rows = await db.selectFrom('passages').select('id').where('tenant_id', '=', tenant).orderBy('id').execute()
    const own = new Map(rows.map(({ id }, at) => [id, all[at] as UnitVector]))
    for (let at = 0; at < count; at += 500) {
      await storeVectors(db, { tenantId: tenant, indexId: index }, modelId, new Map([...own].slice(at, at + 500)))
    }
    if (tenant === 'a') for (const [id, vector] of own) vectors.set(id, vector)
  }
  return vectors
}

describe.each(STORES)('vectors searched by %s', (by, open) => {
  let store: Store
  let space: Space
  let vectors: Map<number, UnitVector>

  beforeAll(async () => {
    store = await open()
    sharedResources.add(store)
    const { id: modelId } = await chooseModel(store.db, { model: 'test/small', batch: 1 })
    space = { tenantId: 'a', indexId: 'zoo', modelId }
    vectors = await fill(store.db, modelId)
  })
  afterAll(async () => {
    sharedResources.delete(store)
    await store.close()
  })

  test('the nearest vectors of an index are found, exactly and in order, with either implementation', async () => {
    const nearest = await openNearest(store.db, { clock: createFakeClock(), log: silent })
    expect(nearest.by).toBe(by)
    const random = createRandom(11)
    for (const query of [randomVector(random, DIMENSIONS), [...vectors.values()][3] as UnitVector]) {
      const wanted = [...vectors]
        .map(([passageId, vector]) => ({ passageId, cosine: expect.closeTo(cosine(vector, query), 5) as number }))
        .sort(
          (one, other) =>
            cosine(vectors.get(other.passageId) as UnitVector, query) -
            cosine(vectors.get(one.passageId) as UnitVector, query),
        )
        .slice(0, 10)
      expect(await nearest.findNearest(space, query, 10)).toEqual(wanted)
      expect(await nearestPlain(store.db, space, query, 10)).toEqual(wanted)
    }
  })

  test('passages of a document in removal do not displace others', async () => {
    const { findNearest } = await openNearest(store.db, { clock: createFakeClock(), log: silent })
    const query = [...vectors.values()][0] as UnitVector
    const setState = (state: 'discarded' | 'published') =>
      store.db.updateTable('documents').set({ state }).where('tenant_id', '=', 'a').execute()
    await setState('discarded')
    try {
      expect(await findNearest(space, query, 10)).toEqual([])
      expect(await nearestPlain(store.db, space, query, 10)).toEqual([])
    } finally {
      await setState('published')
    }
    expect(await findNearest(space, query, 10)).toHaveLength(10)
  })

  test('other tenants, indexes and models are never searched', async () => {
    const { findNearest } = await openNearest(store.db, { clock: createFakeClock(), log: silent })
    const query = [...vectors.values()][0] as UnitVector
    for (const other of [{ modelId: space.modelId + 1 }, { tenantId: 'b' }, { indexId: 'farm' }]) {
      expect(await findNearest({ ...space, ...other }, query, 10)).toEqual([])
      expect(await nearestPlain(store.db, { ...space, ...other }, query, 10)).toEqual([])
    }
    const inFarm = await findNearest({ ...space, tenantId: 'b', indexId: 'farm' }, query, 10)
    expect(inFarm).toHaveLength(10)
    expect(inFarm.filter(({ passageId }) => vectors.has(passageId))).toEqual([])
  })
})

test('results over several reads, and above the limit of exact comparison, are the same with and without the extension', async () => {
  const store = await openSqliteWithVectors()
  try {
    const { id: modelId } = await chooseModel(store.db, { model: 'test/small', batch: 1 })
    await fill(store.db, modelId, { count: 5_200, tenants: ['a'] })
    const { findNearest } = await openNearest(store.db, { clock: createFakeClock(), log: silent })
    const space = { tenantId: 'a', indexId: 'zoo', modelId }
    for (let seed = 1; seed <= 5; seed++) {
      const query = randomVector(createRandom(seed), DIMENSIONS)
      const found = await findNearest(space, query, 50)
      expect(new Set(found.map(({ passageId }) => passageId)).size).toBe(50)
      expect(await nearestPlain(store.db, space, query, 50)).toEqual(
        found.map(({ passageId, cosine }) => ({ passageId, cosine: expect.closeTo(cosine, 5) })),
      )
    }
  } finally {
    await store.close()
  }
})

test('a failing extension is bypassed for a while, logged once, and then retried', async () => {
  const store = await openSqliteWithVectors()
  const warnings: string[] = []
  try {
    const { id: modelId } = await chooseModel(store.db, { model: 'test/small', batch: 1 })
    const vectors = await fill(store.db, modelId)
    const clock = createFakeClock()
    const { findNearest } = await openNearest(store.db, {
      clock,
      log: { ...silent, warn: (_, message) => void warnings.push(message) },
    })
    // The extension rejects such a vector, as a store without its functions would.
    await store.db
      .updateTable('passage_vectors')
      .set({ signature: Buffer.alloc(0) })
      .where('tenant_id', '=', 'b')
      .execute()
    const inB = { tenantId: 'b', indexId: 'farm', modelId }
    const query = [...vectors.values()][0] as UnitVector
    await findNearest(inB, query, 1)
    expect((await findNearest({ tenantId: 'a', indexId: 'zoo', modelId }, query, 1))[0]?.passageId).toBe(
      [...vectors.keys()][0],
    )
    await findNearest(inB, query, 1)
    expect(warnings).toHaveLength(1)
    clock.advance(EXTENSION_PAUSE_MS)
    await findNearest(inB, query, 1)
    expect(warnings).toHaveLength(2)
  } finally {
    await store.close()
  }
})

const silent = { info: () => undefined, warn: () => undefined }
