import type { Caller } from '../../../../src/daemon/platform/http/caller.ts'
import { NOBODY } from '../../../../src/daemon/platform/http/caller.ts'
import { type RateClass, type Route, reply, route } from '../../../../src/daemon/platform/http/route.ts'
import { newId } from '../../../../src/shared/ids.ts'
import { DEFAULT_KEY_SETTINGS } from '../../../../src/shared/wire/keys.ts'

/** Limits of a key; undefined ones do not apply. */
export type KeyLimits = { minute?: number | null; hour?: number | null; day?: number | null; month?: number | null }

/** A caller with its own key. */
export function callerWith(
  { minute = null, hour = null, day = null, month = null }: KeyLimits,
  given: Partial<Caller> = {},
): Caller {
  const rateLimit = { requestsPerMinute: minute, requestsPerHour: hour }
  return {
    ...NOBODY,
    tenantId: newId(),
    keyId: newId(),
    keyName: 'scripts',
    userId: newId(),
    settings: { ...DEFAULT_KEY_SETTINGS, dailyLimit: day, monthlyLimit: month, rateLimit },
    ...given,
  }
}

/** A route of this class. Only its limits matter. */
export const routeOf = (rate: RateClass, path = `/${rate}`): Route =>
  route({
    method: 'POST',
    path,
    access: 'key',
    rate,
    errors: 'flat',
    summary: '',
    tags: [],
    responses: {},
    handle: async () => reply(200, {}),
  })
