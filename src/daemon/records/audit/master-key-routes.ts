import type { z } from 'zod'
import { StructuredError } from '../../../shared/wire/common.ts'
import { MASTER_KEY_PATH, MasterKeyResponse, ROTATE_MASTER_KEY_PATH } from '../../../shared/wire/master-key.ts'
import { type Route, reply, route } from '../../platform/http/route.ts'
import type { MasterKeyRotation, MasterKeyStatus } from '../../platform/secrets/rotation.ts'
import { type ChangeDeps, change } from './change.ts'

/** Defines the routes that show and rotate the master key. Neither route shows a key. */
export function masterKeyRoutes({ rotation, ...deps }: ChangeDeps & { rotation: MasterKeyRotation }): Route[] {
  const common: Pick<Route, 'access' | 'errors' | 'tags'> = {
    access: 'operator',
    errors: 'structured',
    tags: ['Secrets'],
  }
  return [
    route({
      ...common,
      method: 'GET',
      path: MASTER_KEY_PATH,
      summary: 'Show which master key encrypts the secrets of the store, and whether it is being rotated',
      responses: { 200: { description: 'The id of the key, and the rotation', schema: MasterKeyResponse } },
      async handle() {
        return reply(200, toResponse(await rotation.status()))
      },
    }),
    route({
      ...common,
      method: 'POST',
      path: ROTATE_MASTER_KEY_PATH,
      summary: 'Encrypt all secrets of the store with a new master key, while the daemons run',
      responses: {
        202: { description: 'The rotation has begun, or was running already', schema: MasterKeyResponse },
        409: { description: 'No next master key is configured', schema: StructuredError },
      },
      async handle(context) {
        await change(deps, context, async ({ tx, record }) => {
          const { new_id } = await rotation.begin(tx)
          await record({
            type: 'evidence_management',
            operation: 'rotate',
            resourceType: 'master_key',
            resourceId: new_id,
            description: `rotates the master key of the store; the new key is ${new_id}`,
          })
        })
        const begun = await rotation.status()
        rotation.wake()
        return reply(202, toResponse(begun))
      },
    }),
  ]
}

const toResponse = ({ id, since, rotation }: MasterKeyStatus): z.input<typeof MasterKeyResponse> => ({
  success: true,
  master_key: {
    id,
    since,
    rotation: rotation ? { phase: rotation.phase, to: rotation.new_id, started_at: rotation.started_at } : null,
  },
})
