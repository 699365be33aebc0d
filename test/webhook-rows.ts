import type { WebhookEndpointRow } from '../src/daemon/platform/db/tables.ts'
import { createMasterKey } from '../src/daemon/platform/secrets/seal.ts'
import { newSigningSecret, sealSigningSecret } from '../src/daemon/webhooks/signing-secret.ts'
import { newId } from '../src/shared/ids.ts'
import { secretWatch } from './secret-watch.ts'

/** The default master key of all gateways in tests. */
export const TEST_MASTER_KEY = '5ea1'.repeat(16)

const CREATED = '2026-01-01T00:00:00.000Z'

/** An endpoint for all events at a port without a listener. `fields` override the defaults. */
export function endpointRow({
  signingSecret = newSigningSecret(),
  ...fields
}: Partial<WebhookEndpointRow> & { signingSecret?: string } & Pick<
    WebhookEndpointRow,
    'tenant_id'
  >): WebhookEndpointRow {
  secretWatch.addSecret('a signing secret', signingSecret)
  const row = {
    id: newId(),
    url: 'http://127.0.0.1:61999/hook',
    description: '',
    events: '["*"]',
    enabled: 1,
    disabled_reason: null,
    failure_count: 0,
    held_dropped: 0,
    previous_secret: null,
    previous_secret_until: null,
    created_at: CREATED,
    updated_at: CREATED,
    last_delivery_at: null,
    last_status: null,
    ...fields,
  }
  return { secret: sealSigningSecret(createMasterKey(TEST_MASTER_KEY), row, signingSecret), ...row }
}
