import { FUSION_K } from '../../../../shared/spec-limits.ts'

/** Something that rankings have found, with what they say together. */
export type Fused<Id> = { id: Id; score: number }

/**
 * Reciprocal-rank fusion (Cormack, Clarke and Büttcher, 2009): of several rankings of the same things, best first, one. Only
 * places count, so rankings whose scores have nothing in common can be fused.
 *
 * `score` is 0 to 1: 1 is first in all of them; with two, 0.5 is first in one and absent from the other. What has the same
 * score is in the order of the first ranking that has it.
 */
export function fuseRankings<Id>(rankings: readonly (readonly Id[])[], k: number = FUSION_K): Fused<Id>[] {
  const scores = new Map<Id, number>()
  for (const ranking of rankings) {
    for (const [at, id] of ranking.entries()) {
      const share = (k + 1) / (k + 1 + at) / rankings.length
      scores.set(id, (scores.get(id) ?? 0) + share)
    }
  }
  // A map keeps the order in which its keys came, and sorting keeps it among equals.
  return [...scores]
    .map(([id, score]) => ({ id, score: Math.min(score, 1) }))
    .sort((one, other) => other.score - one.score)
}
