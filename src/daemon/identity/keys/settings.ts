import { z } from 'zod'
import { invalidField } from '../../../shared/errors.ts'
import { LEVELS, type Rights, SECTIONS } from '../../../shared/permissions.ts'
import { toPolicyId } from '../../../shared/policy-id.ts'
import { type KEY_READ_ONLY, KeySettings, type UpdateKeyRequest } from '../../../shared/wire/keys.ts'

/** The content of the column `settings` of a key. */
export type StoredSettings = {
  settings: KeySettings
  /**
   * The highest administrator levels, fixed when the key was created, rotated or last granted any. The key never
   * exceeds them, even if its owner's rights grow. Null for the owner's levels.
   */
  grantedLevels: Rights['levels'] | null
}

const GrantedLevels = z.partialRecord(z.enum(SECTIONS), z.enum(LEVELS)).nullable().default(null)
const Stored = KeySettings.extend({ grantedLevels: GrantedLevels })

/** Parses `settings` of an api_keys row. Absent members have their defaults. */
export function readSettings(json: string): StoredSettings {
  const { grantedLevels, ...settings } = Stored.parse(JSON.parse(json))
  return { settings, grantedLevels }
}

/** The inverse of readSettings. */
export const writeSettings = ({ settings, grantedLevels }: StoredSettings): string =>
  JSON.stringify({ ...settings, grantedLevels })

/** Merges the request into `settings`; `rateLimit` and `usageByModel` are merged member by member. */
export function changedSettings(
  settings: KeySettings,
  request: Omit<z.output<typeof UpdateKeyRequest>, (typeof KEY_READ_ONLY)[number]>,
): KeySettings {
  const { name: _, expiresAt: __, rateLimit, usageByModel, ...fields } = request
  return KeySettings.parse({
    ...settings,
    ...withoutUnset(fields),
    rateLimit: { ...settings.rateLimit, ...withoutUnset(rateLimit) },
    usageByModel: { ...settings.usageByModel, ...withoutUnset(usageByModel) },
  })
}

const withoutUnset = (fields: object = {}): object =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))

/**
 * `settings` with policies given by id. The input may be a name or an id in any case.
 * @throws VALIDATION_ERROR for an unknown policy, and for a default policy that the key may not use.
 */
export function withPolicyIds(settings: KeySettings, isKnown: (id: string) => boolean): KeySettings {
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
