/** The constant k in the formula of reciprocal rank fusion. */
const FUSION_K = 60

/** An item that occurs in at least one ranking, with its fused score. */
export type Fused<Id> = { id: Id; score: number }

/**
 * Fuses several rankings of the same items by reciprocal-rank fusion (Cormack, Clarke and Büttcher, 2009). Best first.
 * Only ranks are used, so rankings with incomparable scores can be fused.
 *
 * `score` is 0 to 1. An item that ranks first in all rankings scores 1. With two rankings, an item scores 0.5 if it is
 * first in one ranking and missing from the other. Items with equal scores keep the order of the first ranking that
 * contains them.
 */
export function fuseRankings<Id>(rankings: readonly (readonly Id[])[], k: number = FUSION_K): Fused<Id>[] {
  const scores = new Map<Id, number>()
  for (const ranking of rankings) {
    for (const [at, id] of ranking.entries()) {
      const share = (k + 1) / (k + 1 + at) / rankings.length
      scores.set(id, (scores.get(id) ?? 0) + share)
    }
  }
  // A map preserves the insertion order and the sort is stable, so items with equal scores keep their order.
  return [...scores]
    .map(([id, score]) => ({ id, score: Math.min(score, 1) }))
    .sort((one, other) => other.score - one.score)
}
