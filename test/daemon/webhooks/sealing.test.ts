import { expect, test } from 'vitest'
import { createAuthenticator } from '../../../src/daemon/identity/keys/authenticate.ts'
import { createMasterKey, sealedPrefix } from '../../../src/daemon/platform/secrets/seal.ts'
import { openSigningKeys } from '../../../src/daemon/records/evidence/signing-keys.ts'
import { createWebhook, rotateWebhookSecret } from '../../../src/daemon/webhooks/endpoints.ts'
import { systemClock } from '../../../src/shared/time.ts'
import { addKey } from '../../accounts.ts'
import { describeEachEngine } from '../../engines.ts'
import { startGateway } from '../../harness.ts'
import { addTestTenant } from '../../tenant-admin.ts'
import { TEST_MASTER_KEY } from '../../webhook-rows.ts'

const NEXT = '0ff1ce'.repeat(11).slice(0, 64)

describeEachEngine('a webhook secret', (engine) => {
  test('is encrypted in its transaction, so a rotation of the master key before that cannot miss it', async () => {
    const gateway = await startGateway({ engine })
    const { db, addUser } = await addTestTenant(gateway)
    const { secret } = await addKey(db, await addUser({ role: 'admin' }))
    const authenticator = createAuthenticator({ db, clock: systemClock })
    const headers = { authorization: `Bearer ${secret}` }
    const caller = await authenticator.authenticate({ headers, socket: { remoteAddress: '127.0.0.1' } } as never)
    const actor = { caller, requestId: 'req-1', endpoint: 'POST /x', access: 'integrations' as const }
    const masterKey = createMasterKey(TEST_MASTER_KEY)
    const signingKeys = await openSigningKeys(db, { masterKey, name: 'test', clock: systemClock })
    const keys = [NEXT, TEST_MASTER_KEY]
    const deps = {
      ...{ db, clock: systemClock, signingKeys, masterKey, ...authenticator },
      checkTarget: async () => {},
      onChange: () => {},
      // The transaction begins with this lookup. A rotation has ended just before.
      lookUpAgain(...given: Parameters<typeof authenticator.lookUpAgain>) {
        masterKey.sealWith(masterKey.accept(keys.shift() ?? NEXT))
        return authenticator.lookUpAgain(...given)
      },
    }
    const { endpoint } = await createWebhook(deps, actor, {
      ...{ url: 'http://127.0.0.1:61999/h', events: ['*'], enabled: true },
    } as never)
    const stored = async () =>
      (await db.selectFrom('webhook_endpoints').select('secret').where('id', '=', endpoint.row.id).executeTakeFirst())
        ?.secret ?? ''
    expect((await stored()).startsWith(sealedPrefix(createMasterKey(NEXT).id))).toBe(true)
    await rotateWebhookSecret(deps, actor, endpoint.row.id, 0)
    expect((await stored()).startsWith(sealedPrefix(createMasterKey(TEST_MASTER_KEY).id))).toBe(true)
  })
})
