import { toColumns, toUnitVector } from '../../../../../src/daemon/knowledge/search/vectors/stored-vector.ts'
import type { UnitVector } from '../../../../../src/daemon/knowledge/search/vectors/unit-vector.ts'
import { insertVectors } from '../../../../../src/daemon/knowledge/search/vectors/vector-store.ts'
import type { Db } from '../../../../../src/daemon/platform/db/db.ts'
import { engineOf } from '../../../../../src/daemon/platform/db/engine.ts'

/** Pseudo-random numbers, the same in every run. */
export function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) >>> 0
    return state / 0x1_0000_0000
  }
}

export const randomVector = (random: () => number, dimensions: number): UnitVector =>
  toUnitVector(Array.from({ length: dimensions }, () => random() - 0.5)) as UnitVector

/** Assigns a vector to each passage with these ids. */
export function storeVectors(
  db: Db,
  index: { tenantId: string; indexId: string },
  modelId: number,
  vectors: ReadonlyMap<number, UnitVector>,
): Promise<void> {
  const rows = [...vectors].map(([passageId, vector]) => ({ passageId, ...toColumns(vector, engineOf(db).name) }))
  return db.transaction().execute((tx) => insertVectors(tx, index, modelId, rows))
}
