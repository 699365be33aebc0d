import { z } from 'zod'
import { invalidField } from '../../../shared/errors.ts'
import { LEVELS, type Rights, SECTIONS } from '../../../shared/permissions.ts'
import { toPolicyId } from '../../../shared/policy-id.ts'
import { type KEY_READ_ONLY, KeySettings, type UpdateKeyRequest } from '../../../shared/wire/keys.ts'

/** The content of the column `settings` of a key. */
export type StoredSettings = {
  settings: KeySettings
  /**
   * The maximum administrator levels of the key. They are fixed when the key is created or rotated, and when
   * administrator rights are granted. The key never exceeds these levels, even if its owner gets more rights. Null
   * means the owner's current levels.
   */
  grantedLevels: Rights['levels'] | null
}

const GrantedLevels = z.partialRecord(z.enum(SECTIONS), z.enum(LEVELS)).nullable().default(null)
const Stored = KeySettings.extend({ grantedLevels: GrantedLevels })

/** Parses `settings` of an api_keys row. Absent properties have their defaults. */
export function readSettings(json: string): StoredSettings {
  const { grantedLevels, ...settings } = Stored.parse(JSON.parse(json))
  return { settings, grantedLevels }
}

/** Serializes settings as JSON, the inverse of `readSettings`. */
export const writeSettings = ({ settings, grantedLevels }: StoredSettings): string =>
  JSON.stringify({ ...settings, grantedLevels })

/** Merges the request into `settings`. The properties of `rateLimit`, `limits` and `usageByModel` are merged individually. */
export function changedSettings(
  settings: KeySettings,
  request: Omit<z.output<typeof UpdateKeyRequest>, (typeof KEY_READ_ONLY)[number]>,
): KeySettings {
  const { name: _, expiresAt: __, rateLimit, limits, usageByModel, ...fields } = request
  return KeySettings.parse({
    ...settings,
    ...withoutUnset(fields),
    rateLimit: { ...settings.rateLimit, ...withoutUnset(rateLimit) },
    limits: { ...settings.limits, ...withoutUnset(limits) },
    usageByModel: { ...settings.usageByModel, ...withoutUnset(usageByModel) },
  })
}

const withoutUnset = (fields: object = {}): object =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))

/** Whether a tenant has a policy with this id, custom or built-in. */
export type KnownPolicy = (id: string) => boolean

/**
 * Returns `settings` with the ids of policies. The input may contain names or ids, in upper or lower case.
 * @throws VALIDATION_ERROR for an unknown policy, and for a default policy that the key is not allowed to use.
 */
export function withPolicyIds(settings: KeySettings, isKnown: KnownPolicy): KeySettings {
  const idOf = (field: string, name: string): string => {
    const id = toPolicyId(name)
    if (!isKnown(id))
      throw invalidField(
        field,
        `There is no policy "${name}". GET /api/external/smltp-policies/all lists all policies.`,
        name,
      )
    return id
  }
  const allowed = settings.allowedSMLTPPolicies.map((name) => idOf('allowedSMLTPPolicies', name))
  const allowedSMLTPPolicies = [...new Set(allowed)]
  if (settings.defaultSMLTPPolicy === null) return { ...settings, allowedSMLTPPolicies }
  const defaultSMLTPPolicy = idOf('defaultSMLTPPolicy', settings.defaultSMLTPPolicy)
  if (allowedSMLTPPolicies.length > 0 && !allowedSMLTPPolicies.includes(defaultSMLTPPolicy)) {
    throw invalidField(
      'defaultSMLTPPolicy',
      `The default policy "${defaultSMLTPPolicy}" must be one of allowedSMLTPPolicies: ${allowedSMLTPPolicies.join(', ')}.`,
      defaultSMLTPPolicy,
    )
  }
  return { ...settings, allowedSMLTPPolicies, defaultSMLTPPolicy }
}

/**
 * Checks that the tenant has the prompt shield policies of a key. A policy that the key already names may have been
 * deleted, so it is not checked: other settings of the key can still be changed.
 * @throws VALIDATION_ERROR
 */
export function requireShieldPolicies(settings: KeySettings, isKnown: KnownPolicy, before?: KeySettings): void {
  const unknown = (named: readonly (string | null)[], known: readonly (string | null)[] = []) =>
    named.find((name) => name !== null && !known.includes(name) && !isKnown(toPolicyId(name)))
  for (const [field, name] of [
    ['promptShieldPolicyId', unknown([settings.promptShieldPolicyId], before && [before.promptShieldPolicyId])],
    ['allowedPromptShieldPolicies', unknown(settings.allowedPromptShieldPolicies, before?.allowedPromptShieldPolicies)],
  ] as const) {
    if (name === undefined) continue
    throw invalidField(
      field,
      `There is no prompt shield policy "${name}". GET /api/admin/prompt-shield-policies lists all of them.`,
      name,
    )
  }
}
