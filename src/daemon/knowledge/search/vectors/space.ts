import type { IndexKey } from '../../indexes/document-types.ts'

/** A passage, and the cosine of the angle between its vector and the query's vector. */
export type Near = { passageId: number; cosine: number }
/** The searched vectors: the vectors of one index that one model created. */
export type Space = IndexKey & { modelId: number }
