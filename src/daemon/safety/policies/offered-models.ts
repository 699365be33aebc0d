import { allowsModel } from '../../../shared/allowlists.ts'
import type { KeySettings } from '../../../shared/wire/keys.ts'
import type { PolicyDocument } from '../../../shared/wire/policies.ts'
import type { ProviderRegistry } from '../../models/registry.ts'
import type { PolicyList } from './policies.ts'
import { findDefaultDocument } from './resolve.ts'
import { violationsOf } from './restrictions.ts'

type Restricted = Pick<KeySettings, 'allowedModels' | 'defaultSMLTPPolicy'>

/**
 * Returns the models that a key may request without naming a policy, in the format of the registry's `describe`. These
 * are the key's models, except models that the key's default policy rejects.
 */
export function offeredModels(registry: ProviderRegistry, settings: Restricted, policies: PolicyList): string[] {
  const usable = registry.describe(settings.allowedModels)
  const document = enforcedDefault(settings, policies)
  // The key may allow all models of a provider, so the models that the policy lists are also candidates.
  const named = document ? registry.describe(document.allowedModels) : []
  return [...new Set([...usable, ...named])].filter((id) => mayCallFor(id, registry, settings, document))
}

/** Whether `offeredModels` contains this model, or a `<provider>/*` entry for it. */
export const offersModel = (
  modelId: string,
  registry: ProviderRegistry,
  settings: Restricted,
  policies: PolicyList,
): boolean => mayCallFor(modelId, registry, settings, enforcedDefault(settings, policies))

function mayCallFor(
  modelId: string,
  registry: ProviderRegistry,
  { allowedModels }: Restricted,
  document: PolicyDocument | undefined,
): boolean {
  const found = registry.find(modelId)
  if (!found || !allowsModel(allowedModels, modelId)) return false
  return document === undefined || violationsOf(document, [{ modelId, location: found.location }]).length === 0
}

function enforcedDefault(settings: Restricted, policies: PolicyList): PolicyDocument | undefined {
  const document = findDefaultDocument(settings, policies)
  return document?.mode === 'monitor' ? undefined : document
}
