import { type ShieldPolicy, ShieldPolicyDocument } from '../../../shared/wire/shield.ts'

const builtIn = (id: ShieldPolicyDocument['sensitivity'], description: string): ShieldPolicy => ({
  id,
  name: id,
  description,
  type: 'built-in',
  policy: ShieldPolicyDocument.parse({ sensitivity: id }),
})

/** One policy per sensitivity, for keys that do not name a shield policy. These policies cannot be changed. */
export const BUILT_IN_SHIELD_POLICIES: readonly ShieldPolicy[] = [
  builtIn('strict', 'For public applications; some harmless prompts are blocked'),
  builtIn('balanced', 'For everyday use'),
  builtIn('permissive', 'For tests and trusted users; only clear attacks are blocked'),
]
