import { LRUCache } from 'lru-cache'

/** Maximum number of models that have a label of their own although no configuration names them. */
const SERVED_MODELS = 100
/** Maximum number of names whose label is remembered. */
const NAMES_KEPT = 2_000

/** The label of requests that called no model. */
export const NO_MODEL = 'none'

/** The values of the label `model`. Callers choose names of models, so their number is bounded. */
export type ModelLabels = {
  /**
   * Returns the label of a model `<provider>/<model>`: the model itself if the configuration names it, or if it has
   * answered. All other models of a provider share the label `<provider>/*`.
   */
  of(modelId: string): string
  /** The same, for a model that has just answered. */
  answered(modelId: string): string
}

/** @param configured returns the ids that the providers offer now; `<provider>/*` stands for any name */
export function createModelLabels(configured: () => readonly string[]): ModelLabels {
  const labels = new LRUCache<string, string>({ max: NAMES_KEPT })
  const served = new Set<string>()

  function of(modelId: string): string {
    const known = labels.get(modelId)
    if (known !== undefined) return known
    const isNamed = served.has(modelId) || configured().includes(modelId)
    const label = isNamed ? modelId : `${modelId.slice(0, Math.max(0, modelId.indexOf('/')))}/*`
    labels.set(modelId, label)
    return label
  }

  return {
    of,
    answered(modelId) {
      const label = of(modelId)
      if (label === modelId || served.size >= SERVED_MODELS) return label
      served.add(modelId)
      labels.set(modelId, modelId)
      return modelId
    },
  }
}
