// The join of two shields: the shield that is at least as strict as both, field by field.
import { SHIELD_SENSITIVITIES } from '../../../shared/wire/keys.ts'
import {
  SHIELD_LAYERS,
  SHIELD_VERDICTS,
  type ShieldCategory,
  type ShieldPolicy,
  type ShieldPolicyDocument,
} from '../../../shared/wire/shield.ts'
import { thresholdsOf } from '../guards/shield/verdict.ts'

/**
 * The shield that applies to a request. `document` also includes the requirements of the key and the SMLTP policy. The
 * ids and names of joined shields are joined with ` + `.
 */
export type AppliedShield = Pick<ShieldPolicy, 'id' | 'name'> & { document: ShieldPolicyDocument }

type Document = ShieldPolicyDocument
type Strictness = Pick<Document, 'sensitivity' | 'thresholds'>

/** Returns a shield that blocks at least what each of the two shields blocks. */
export const joinShields = (one: AppliedShield, other: AppliedShield): AppliedShield => ({
  id: one.id === other.id ? one.id : `${one.id} + ${other.id}`,
  name: one.id === other.id ? one.name : `${one.name} + ${other.name}`,
  document: joinDocuments(one.document, other.document),
})

const joinDocuments = (one: Document, other: Document): Document => ({
  ...strictest(one, other),
  mode: one.mode === 'blocking' ? one.mode : other.mode,
  layers: SHIELD_LAYERS.filter((layer) => one.layers.includes(layer) || other.layers.includes(layer)),
  categories: limitsOfBoth(one.categories, other.categories),
  scanInput: one.scanInput || other.scanInput,
  scanRetrieved: one.scanRetrieved || other.scanRetrieved,
  scanOutput: one.scanOutput || other.scanOutput,
  allowOptOut: one.allowOptOut && other.allowOptOut,
  judgeModel: one.judgeModel ?? other.judgeModel,
})

/** Returns the stricter sensitivity, and the lower of each threshold. */
export function strictest(one: Strictness, other: Strictness): Strictness {
  // SHIELD_SENSITIVITIES is ordered from strictest to most permissive.
  const sensitivity = SHIELD_SENSITIVITIES.find((each) => each === one.sensitivity || each === other.sensitivity)
  if (one.thresholds === null && other.thresholds === null)
    return { sensitivity: sensitivity ?? 'strict', thresholds: null }
  const [a, b] = [one, other].map(({ sensitivity, thresholds }) => thresholds ?? thresholdsOf(sensitivity)) as [
    NonNullable<Document['thresholds']>,
    NonNullable<Document['thresholds']>,
  ]
  return {
    sensitivity: sensitivity ?? 'strict',
    thresholds: {
      log: Math.min(a.log, b.log),
      flag: Math.min(a.flag, b.flag),
      block: Math.min(a.block, b.block),
    },
  }
}

/** A category keeps a limit only if both shields limit it. The higher limit applies. */
function limitsOfBoth(one: Document['categories'], other: Document['categories']): Document['categories'] {
  const names = (Object.keys(one) as ShieldCategory[]).filter((name) => other[name] !== undefined)
  return Object.fromEntries(
    names.map((name) => [name, SHIELD_VERDICTS.findLast((each) => each === one[name] || each === other[name])]),
  )
}
