import { allowsModel } from '../../shared/allowlists.ts'
import type { KeySettings } from '../../shared/wire/keys.ts'
import type { ProviderRegistry } from '../providers/registry.ts'
import type { TenantPolicies } from './catalogue.ts'
import { findDefaultPolicy } from './resolve.ts'
import { violationsOf } from './restrictions.ts'

/**
 * What a key may ask for when it names no policy, as `describe` of the registry has it: the models that the key may use,
 * without those that its default policy refuses (named-endpoints §4).
 */
export function offeredModels(
  registry: ProviderRegistry,
  settings: Pick<KeySettings, 'allowedModels' | 'defaultSMLTPPolicy'>,
  policies: TenantPolicies,
): string[] {
  const usable = registry.describe(settings.allowedModels)
  const document = findDefaultPolicy(settings, policies)?.document
  if (!document || document.mode === 'monitor') return usable
  // Where the key may use any model of a provider and the policy allows some, these are what there is to name.
  const named = registry.describe(document.allowedModels).filter((id) => allowsModel(settings.allowedModels, id))
  return [...new Set([...usable, ...named])].filter((modelId) => {
    const found = registry.find(modelId)
    return found !== undefined && violationsOf(document, [{ modelId, place: found.place }]).length === 0
  })
}
