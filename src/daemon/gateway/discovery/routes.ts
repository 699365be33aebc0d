import type { z } from 'zod'
import type { Clock } from '../../../shared/time.ts'
import { ListModelsQuery, ListModelsResponse, UsageResponse } from '../../../shared/wire/discovery.ts'
import type { PointAllowances } from '../../metering/config.ts'
import { periodAt } from '../../metering/usage/period.ts'
import type { Db } from '../../platform/db/db.ts'
import { findSpend } from '../../platform/db/spend-counters.ts'
import { type Route, reply, route } from '../../platform/http/route.ts'
import type { Catalogue, ListedModel } from './catalogue.ts'
import { type CountsOf, toUsage } from './usage.ts'

/** The routes that list the models of a key and its remaining usage. */
export function discoveryRoutes({
  db,
  clock,
  catalogue,
  countsOf,
  points = {},
}: {
  db: Db
  clock: Clock
  catalogue: Catalogue
  countsOf: CountsOf
  points?: PointAllowances | undefined
}): Route[] {
  return [
    route({
      method: 'GET',
      path: '/api/external/models',
      access: 'key',
      errors: 'flat',
      summary: 'List the models that this key may use',
      tags: ['Discovery'],
      query: ListModelsQuery,
      responses: {
        200: { description: 'The values that chat accepts as `model`', schema: ListModelsResponse },
      },
      async handle({ caller, query: { provider } }) {
        const { allowedModels } = caller.settings
        const models = (await catalogue.patterns(caller)).map(toModel)
        return reply(200, {
          success: true,
          models: provider === undefined ? models : models.filter((model) => model.provider === provider),
          user_license: caller.userLicense,
          restrictions: { allowed_models: allowedModels.length === 0 ? 'all' : allowedModels },
          filters: { provider: provider ?? null },
        } satisfies z.input<typeof ListModelsResponse>)
      },
    }),
    route({
      method: 'GET',
      path: '/api/external/usage',
      access: 'key',
      rate: 'unmetered',
      errors: 'flat',
      summary: 'Show the usage and the remaining limits of this key',
      tags: ['Discovery'],
      responses: {
        200: {
          description: 'Points and dollars of the owner of the key; counters and limits of the key',
          schema: UsageResponse,
        },
      },
      async handle({ caller }) {
        const nowMs = clock.now()
        const period = periodAt(nowMs).name
        const [counts, spend] = await Promise.all([
          countsOf(caller),
          findSpend(db, { tenant_id: caller.tenantId, holder: 'user', holder_id: caller.userId, period }),
        ])
        return reply(200, toUsage(caller, { counts, spend, pointsLimit: points[caller.userLicense] ?? null, nowMs }))
      },
    }),
  ]
}

const toModel = ({ id, owner, details }: ListedModel) => ({ id, name: id, provider: owner, ...details })
