import { ZERO_KNOWLEDGE } from './wire/indexes.ts'

/** Whether `allowedModels` of a key, exact ids and `<provider>/*`, lets it use this model. An empty list restricts nothing. */
export function allowsModel(allowedModels: readonly string[], modelId: string): boolean {
  if (allowedModels.length === 0 || allowedModels.includes(modelId)) return true
  return allowedModels.includes(`${modelId.slice(0, modelId.indexOf('/'))}/*`)
}

/**
 * Whether `allowedIndexes` of a key lets it use the index of this name. An empty list restricts nothing, and no list forbids
 * to go without an index.
 */
export const allowsIndex = (allowedIndexes: readonly string[], name: string): boolean =>
  allowedIndexes.length === 0 || name === ZERO_KNOWLEDGE || allowedIndexes.includes(name)
