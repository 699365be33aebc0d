import { z } from 'zod'
import { invalidField } from '../../../shared/errors.ts'
import { LEVELS, type Rights, SECTIONS } from '../../../shared/permissions.ts'
import { toPolicyId } from '../../../shared/policy-id.ts'
import { type KEY_READ_ONLY, KeySettings, type UpdateKeyRequest } from '../../../shared/wire/keys.ts'

/** What the column `settings` of a key holds. */
export type StoredSettings = {
  settings: KeySettings
  /**
   * How far its administrator rights went when it was made, rotated or last given any: it never has more, also when its
   * owner rises. Null for as far as its owner's.
   */
  grantedLevels: Rights['levels'] | null
}

const GrantedLevels = z.partialRecord(z.enum(SECTIONS), z.enum(LEVELS)).nullable().default(null)
const Stored = KeySettings.extend({ grantedLevels: GrantedLevels })

/** `settings` of an api_keys row. What is absent has its default. */
export function readSettings(json: string): StoredSettings {
  const { grantedLevels, ...settings } = Stored.parse(JSON.parse(json))
  return { settings, grantedLevels }
}

/** The other way round. */
export const writeSettings = ({ settings, grantedLevels }: StoredSettings): string =>
  JSON.stringify({ ...settings, grantedLevels })

/** `settings` with what the request names, which for `rateLimit` and `usageByModel` is each of their members. */
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
 * `settings` with their policies called by id, as `isKnown` takes them: whatever was written, name or id and in any case.
 * @throws VALIDATION_ERROR for a policy that does not exist, and for a default that the key could not use.
 */
export function withPolicyIds(settings: KeySettings, isKnown: (id: string) => boolean): KeySettings {
  const idOf = (field: string, name: string): string => {
    const id = toPolicyId(name)
    if (!isKnown(id)) throw invalidField(field, `There is no policy "${name}".`, name)
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
