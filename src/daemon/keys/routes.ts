import { FlatError } from '../../shared/wire/common.ts'
import { WhoamiResponse } from '../../shared/wire/system.ts'
import { type Route, reply, route } from '../http/route.ts'
import type { Authenticator } from './authenticate.ts'

export function keyRoutes({ authenticator }: { authenticator: Authenticator }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/api/external/whoami',
      access: 'key',
      errors: 'flat',
      summary: 'Whom the presented key speaks for',
      tags: ['Keys'],
      responses: {
        200: { description: 'The owner of the key', schema: WhoamiResponse },
        401: { description: 'Key missing or invalid', schema: FlatError },
      },
      async handle({ request }) {
        const owner = await authenticator.authenticate(request.headers.authorization)
        return reply(200, {
          success: true,
          user: { id: owner.userId, name: owner.userName, email: owner.userEmail, role: owner.userRole },
          tenant: { id: owner.tenantId, name: owner.tenantName },
          api_key: { id: owner.keyId, name: owner.keyName, operator: owner.isOperator },
        })
      },
    }),
  ]
}
