import { GatewayError } from '../../../shared/errors.ts'
import { LICENSES, type License } from '../../../shared/wire/users.ts'
import type { Db } from '../../platform/db/db.ts'
import type { LicensePools } from '../config.ts'

/** Counts the tenant's users by licence, including inactive users. */
export async function countLicenses(db: Db, tenantId: string): Promise<Record<License, number>> {
  const rows = await db
    .selectFrom('users')
    .select((the) => ['license', the.fn.countAll<number>().as('used')])
    .where('tenant_id', '=', tenantId)
    .groupBy('license')
    .execute()
  const used = new Map(rows.map((row) => [row.license, row.used]))
  return Object.fromEntries(LICENSES.map((license) => [license, used.get(license) ?? 0])) as Record<License, number>
}

/**
 * Checks that a licence of this kind is free. The count is exact only while the transaction has the tenant's lock.
 * @throws LICENSE_UNAVAILABLE if no licence of this kind is free
 */
export async function requireFreeLicense(
  tx: Db,
  tenantId: string,
  license: License,
  pools: LicensePools,
): Promise<void> {
  const limit = pools[license]
  if (limit === 0) return
  const { used } = await tx
    .selectFrom('users')
    .select((the) => the.fn.countAll<number>().as('used'))
    .where('tenant_id', '=', tenantId)
    .where('license', '=', license)
    .executeTakeFirstOrThrow()
  if (used < limit) return
  throw new GatewayError(
    'LICENSE_UNAVAILABLE',
    `All licences "${license}" are in use: ${used}/${limit}. Choose another licence, or remove one from a user.`,
  )
}
