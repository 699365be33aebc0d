// The providers that the operator added through the API. Their settings are encrypted as a whole.
import { GatewayError } from '../../shared/errors.ts'
import { STORED_PROVIDERS } from '../../shared/spec-limits.ts'
import type { Db } from '../platform/db/db.ts'
import type { StoredProviderRow } from '../platform/db/tables.ts'
import { type MasterKey, openSecret, type SealedLocation, sealSecret } from '../platform/secrets/seal.ts'
import type { SealedColumn } from '../platform/secrets/sealed-column.ts'

/** The settings of a provider, with the names of the configuration file. They contain secrets. */
export type ProviderSettings = Readonly<Record<string, unknown>>

const TABLE = 'stored_providers'

// Providers belong to the installation and not to a tenant.
const locationOf = (name: string): SealedLocation => ({ purpose: 'providers', table: TABLE, row: name, tenant: '' })

export const PROVIDER_COLUMN: SealedColumn = {
  table: TABLE,
  column: 'sealed',
  key: ['name'],
  locationOf: ({ name = '' }) => locationOf(name),
}

export const sealSettings = (masterKey: MasterKey, name: string, settings: ProviderSettings): string =>
  sealSecret(masterKey, locationOf(name), JSON.stringify(settings))

/** @throws SealBrokenError */
export const openSettings = (masterKey: MasterKey, { name, sealed }: StoredProviderRow): ProviderSettings =>
  JSON.parse(openSecret(masterKey, locationOf(name), sealed))

/** Returns all providers of the store, by name. */
export const findProviders = (db: Db): Promise<StoredProviderRow[]> =>
  db.selectFrom(TABLE).selectAll().orderBy('name').execute()

/** @throws PROVIDER_NOT_FOUND */
export async function getProvider(db: Db, name: string): Promise<StoredProviderRow> {
  const row = await db.selectFrom(TABLE).selectAll().where('name', '=', name).executeTakeFirst()
  if (row) return row
  throw noProvider(name)
}

export const noProvider = (name: string): GatewayError =>
  new GatewayError(
    'PROVIDER_NOT_FOUND',
    `There is no provider "${name.slice(0, 100)}". GET /api/admin/providers lists all.`,
  )

/** @throws PROVIDER_NAME_EXISTS, or VALIDATION_ERROR if the limit is reached */
export async function insertProvider(db: Db, row: StoredProviderRow): Promise<void> {
  const { total } = await db
    .selectFrom(TABLE)
    .select((the) => the.fn.countAll<number>().as('total'))
    .executeTakeFirstOrThrow()
  if (Number(total) >= STORED_PROVIDERS) {
    throw new GatewayError(
      'VALIDATION_ERROR',
      `The store may contain at most ${STORED_PROVIDERS} providers. Remove one first.`,
    )
  }
  const { numInsertedOrUpdatedRows } = await db
    .insertInto(TABLE)
    .values(row)
    .onConflict((conflict) => conflict.column('name').doNothing())
    .executeTakeFirstOrThrow()
  if (numInsertedOrUpdatedRows === 0n) {
    throw new GatewayError(
      'PROVIDER_NAME_EXISTS',
      `A provider named "${row.name}" already exists. Update it instead.`,
      {
        details: { field: 'name', value: row.name },
      },
    )
  }
}

export async function updateProvider(db: Db, { name, sealed, updated_at }: Omit<StoredProviderRow, 'created_at'>) {
  await db.updateTable(TABLE).set({ sealed, updated_at }).where('name', '=', name).execute()
}

export async function deleteProvider(db: Db, name: string): Promise<void> {
  await db.deleteFrom(TABLE).where('name', '=', name).execute()
}

/** Returns the tenant of the operator, in whose log changes from the machine itself are written. */
export async function findOperatorTenant(db: Db): Promise<string | undefined> {
  const row = await db
    .selectFrom('api_keys')
    .select('tenant_id')
    .where('is_operator', '=', 1)
    .orderBy('created_at', 'desc')
    .executeTakeFirst()
  return row?.tenant_id
}
