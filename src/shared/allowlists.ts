import { ZERO_KNOWLEDGE } from './wire/indexes.ts'

/**
 * Whether `allowedModels` of a key allows this model. Entries are exact ids or `<provider>/*`. An empty list allows
 * all.
 */
export function allowsModel(allowedModels: readonly string[], modelId: string): boolean {
  if (allowedModels.length === 0 || allowedModels.includes(modelId)) return true
  return allowedModels.includes(`${modelId.slice(0, modelId.indexOf('/'))}/*`)
}

/**
 * Whether `allowedIndexes` of a key allows the index with this name. An empty list allows all indexes. A request
 * without an index is always allowed.
 */
export const allowsIndex = (allowedIndexes: readonly string[], name: string): boolean =>
  allowedIndexes.length === 0 || name === ZERO_KNOWLEDGE || allowedIndexes.includes(name)
