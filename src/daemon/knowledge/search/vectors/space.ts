import type { IndexKey } from '../../indexes/document-types.ts'

/** A passage and the cosine of the angle between its vector and that of the query. */
export type Near = { passageId: number; cosine: number }
/** The searched vectors: those of one index, made by one model. */
export type Space = IndexKey & { modelId: number }
