import type { z } from 'zod'
import { LICENSES, type License, LicenseAvailabilityResponse } from '../../../shared/wire/users.ts'
import type { Db } from '../../platform/db/db.ts'
import { type Route, reply, route } from '../../platform/http/route.ts'
import type { LicensePools } from '../config.ts'
import { countLicenses } from './pool.ts'

/** Returns the route that reports the number of free licences. */
export function licenseRoutes({ db, licenses: limits }: { db: Db; licenses: LicensePools }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/api/external/licenses/availability',
      access: 'user-management',
      errors: 'flat',
      summary: 'List the licences of the tenant: total, used and remaining',
      tags: ['Users'],
      responses: {
        200: {
          description: 'By tier; a limit of 0 and a remainder of null mean no limit',
          schema: LicenseAvailabilityResponse,
        },
      },
      async handle({ caller }) {
        const usage = await countLicenses(db, caller.tenantId)
        // If a pool has been reduced below the number of licences in use, no licence is free.
        const left = (license: License) =>
          limits[license] === 0 ? null : Math.max(0, limits[license] - usage[license])
        const remaining = Object.fromEntries(LICENSES.map((license) => [license, left(license)]))
        return reply(200, {
          success: true,
          limits,
          usage,
          remaining: remaining as Record<License, number | null>,
        } satisfies z.input<typeof LicenseAvailabilityResponse>)
      },
    }),
  ]
}
