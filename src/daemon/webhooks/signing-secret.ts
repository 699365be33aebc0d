import { randomBytes } from 'node:crypto'
import type { WebhookEndpointRow } from '../platform/db/tables.ts'
import { type MasterKey, openSecret, type SealedLocation, sealSecret } from '../platform/secrets/seal.ts'
import type { SealedColumn } from '../platform/secrets/sealed-column.ts'

/** Returns a new signing secret: `whsec_` and 64 hex characters from the system's secure random source. */
export const newSigningSecret = (): string => `whsec_${randomBytes(32).toString('hex')}`

type Endpoint = Pick<WebhookEndpointRow, 'id' | 'tenant_id'>

/** Encrypts the secret for the endpoint's row. */
export const sealSigningSecret = (masterKey: MasterKey, endpoint: Endpoint, secret: string): string =>
  sealSecret(masterKey, locationOf(endpoint), secret)

/**
 * Returns the secrets that currently sign, newest first. During the overlap of a rotation, there are two.
 * @param now ISO 8601
 * @throws SealBrokenError
 */
export function signingSecretsOf(
  masterKey: MasterKey,
  endpoint: Endpoint & Pick<WebhookEndpointRow, 'secret' | 'previous_secret' | 'previous_secret_until'>,
  now: string,
): string[] {
  const { secret, previous_secret, previous_secret_until } = endpoint
  const overlaps = previous_secret !== null && previous_secret_until !== null && now < previous_secret_until
  const sealed = overlaps ? [secret, previous_secret] : [secret]
  return sealed.map((one) => openSecret(masterKey, locationOf(endpoint), one))
}

/** The columns of signing secrets, for a rotation of the master key. */
export const SIGNING_SECRET_COLUMNS: readonly SealedColumn[] = ['secret', 'previous_secret'].map((column) => ({
  table: 'webhook_endpoints',
  column,
  key: ['id', 'tenant_id'],
  isShort: true,
  locationOf: ({ id = '', tenant_id = '' }) => locationOf({ id, tenant_id }),
}))

const locationOf = ({ id, tenant_id }: Endpoint): SealedLocation => ({
  purpose: 'webhook-signing',
  table: 'webhook_endpoints',
  row: id,
  tenant: tenant_id,
})
