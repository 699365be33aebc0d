import { FlatError } from '../../shared/wire/common.ts'
import { WhoamiResponse } from '../../shared/wire/system.ts'
import { type Route, reply, route } from '../http/route.ts'

export function keyRoutes(): Route[] {
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
      async handle({ caller }) {
        return reply(200, {
          success: true,
          user: { id: caller.userId, name: caller.userName, email: caller.userEmail, role: caller.userRole },
          tenant: { id: caller.tenantId, name: caller.tenantName },
          api_key: { id: caller.keyId, name: caller.keyName, operator: caller.isOperator },
        })
      },
    }),
  ]
}
