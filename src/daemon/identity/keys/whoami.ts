import type { z } from 'zod'
import { openSections } from '../../../shared/permissions.ts'
import { WhoamiResponse } from '../../../shared/wire/system.ts'
import type { Caller } from '../../platform/http/caller.ts'
import { type Route, reply, route } from '../../platform/http/route.ts'

/** The limits of keys do not apply to the operator key. */
const UNLIMITED = {
  dailyLimit: null,
  monthlyLimit: null,
  rateLimit: { requestsPerMinute: null, requestsPerHour: null },
}
const limitsOf = ({ dailyLimit, monthlyLimit, rateLimit }: Caller['settings']) => ({
  dailyLimit,
  monthlyLimit,
  rateLimit,
})

/**
 * Returns the route GET /whoami. This route is not part of the API contract. Scripts use it to check the rights of
 * their key.
 */
export const whoamiRoute = (): Route =>
  route({
    method: 'GET',
    path: '/api/external/whoami',
    access: 'key',
    errors: 'flat',
    summary: 'Show the owner, tenant and rights of the presented key',
    tags: ['Keys'],
    responses: {
      200: { description: 'Owner, tenant and rights of the key', schema: WhoamiResponse },
    },
    async handle({ caller }) {
      const { rights, settings } = caller
      return reply(200, {
        success: true,
        user: { id: caller.userId, name: caller.userName, email: caller.userEmail, role: caller.userRole },
        tenant: { id: caller.tenantId, name: caller.tenantName },
        api_key: {
          id: caller.keyId,
          name: caller.keyName,
          operator: caller.isOperator,
          adminAccess: settings.adminAccess,
          indexAccess: settings.indexAccess,
          allowedModels: settings.allowedModels,
          allowedIndexes: settings.allowedIndexes,
          allowedSMLTPPolicies: settings.allowedSMLTPPolicies,
          ...(caller.isOperator ? UNLIMITED : limitsOf(settings)),
          expiresAt: caller.expiresAt,
        },
        permissions: openSections(rights),
        canInteractWithAI: rights.canInteractWithAI,
        canUseChat: rights.canUseChat,
      } satisfies z.input<typeof WhoamiResponse>)
    },
  })
