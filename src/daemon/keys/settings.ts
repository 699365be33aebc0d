import { z } from 'zod'
import { invalidField } from '../../shared/errors.ts'
import { LEVELS, type Rights, SECTIONS } from '../../shared/permissions.ts'
import { KeySettings, type UpdateKeyRequest } from '../../shared/wire/keys.ts'
import { isKnownPolicy } from '../policies/resolve.ts'

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
export function changedSettings(settings: KeySettings, request: z.output<typeof UpdateKeyRequest>): KeySettings {
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

/** @throws VALIDATION_ERROR for a policy that does not exist, and for a default that the key could not use. */
export function checkPolicies({ allowedSMLTPPolicies, defaultSMLTPPolicy }: KeySettings): void {
  const unknown = allowedSMLTPPolicies.find((name) => !isKnownPolicy(name))
  if (unknown !== undefined) {
    throw invalidField('allowedSMLTPPolicies', `There is no policy "${unknown}".`, unknown)
  }
  if (defaultSMLTPPolicy === null) return
  if (!isKnownPolicy(defaultSMLTPPolicy)) {
    throw invalidField('defaultSMLTPPolicy', `There is no policy "${defaultSMLTPPolicy}".`, defaultSMLTPPolicy)
  }
  if (allowedSMLTPPolicies.length > 0 && !allowedSMLTPPolicies.includes(defaultSMLTPPolicy)) {
    throw invalidField(
      'defaultSMLTPPolicy',
      `The default policy "${defaultSMLTPPolicy}" must be one of allowedSMLTPPolicies: ${allowedSMLTPPolicies.join(', ')}.`,
      defaultSMLTPPolicy,
    )
  }
}
