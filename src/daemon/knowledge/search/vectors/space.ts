import type { IndexKey } from '../../indexes/document-types.ts'

/** A passage, and the cosine of the angle between its vector and the query's vector. */
export type Near = { passageId: number; cosine: number }
/** The vectors that a search compares: those that one model created for one index. */
export type Space = IndexKey & { modelId: number }
