// The probes of the daemon and its OpenAPI document.
import type { z } from 'zod'
import { INTERFACE_VERSION } from '../../../shared/spec-limits.ts'
import { type Clock, isoTime } from '../../../shared/time.ts'
import type { LossCause } from '../../../shared/wire/evidence.ts'
import { HealthResponse, LivezResponse, ReadyzResponse } from '../../../shared/wire/system.ts'
import { type Route, reply, route } from './route.ts'

export type SystemDeps = {
  clock: Clock
  /** Whether the store answers and accepts writes, and whether its schema matches this version. */
  checkStore(): Promise<{ store: boolean; migrations: boolean }>
  isDraining(): boolean
  /** Whether this daemon has the master key of the store, and how many secrets it cannot decrypt. */
  secrets(): { isCurrent: boolean; unopened: number }
  /** The causes of lost evidence that no operator has acknowledged. @throws errors of the store */
  lostHistory(): LossCause[] | Promise<LossCause[]>
  /** Every route of the daemon, for /openapi.json. */
  allRoutes(): readonly Route[]
}

/** The routes of the probes and the OpenAPI document. They are public, and available while draining. */
export function systemRoutes({ clock, checkStore, isDraining, secrets, lostHistory, allRoutes }: SystemDeps): Route[] {
  let description: Promise<string> | undefined
  let page: string | undefined
  return [
    route({
      method: 'GET',
      path: '/api/external/health',
      access: 'none',
      errors: 'flat',
      summary: 'Check whether the service is healthy',
      tags: ['System'],
      responses: {
        200: { description: 'Healthy', schema: HealthResponse },
        503: {
          description:
            'The store does not respond or rejects writes, its master key is unknown here, or the daemon is shutting down',
          schema: HealthResponse,
        },
      },
      async handle() {
        const { store, migrations } = await checkStore()
        const healthy = store && migrations && secrets().isCurrent && !isDraining()
        return reply(healthy ? 200 : 503, {
          success: healthy,
          status: healthy ? 'healthy' : 'unhealthy',
          timestamp: isoTime(clock.now()),
          version: INTERFACE_VERSION,
        })
      },
    }),
    route({
      method: 'GET',
      path: '/livez',
      access: 'none',
      errors: 'flat',
      summary: 'Liveness: the process responds',
      tags: ['System'],
      responses: { 200: { description: 'Alive', schema: LivezResponse } },
      handle: async () => reply(200, { status: 'ok' }),
    }),
    route({
      method: 'GET',
      path: '/readyz',
      access: 'none',
      errors: 'flat',
      summary: 'Readiness: the store accepts writes, its migrations are complete, and new requests are accepted',
      tags: ['System'],
      responses: {
        200: {
          description: 'Ready, or degraded because evidence is lost or secrets cannot be opened',
          schema: ReadyzResponse,
        },
        503: { description: 'Not ready; `checks` contains the cause', schema: ReadyzResponse },
      },
      async handle() {
        const { isCurrent, unopened } = secrets()
        const serving = { ...(await checkStore()), master_key: isCurrent, accepting: !isDraining() }
        const isServing = Object.values(serving).every(Boolean)
        // Lost evidence does not make the daemon unready: a load balancer would turn it into an outage.
        const lost = isServing ? await lostHistory() : []
        const isDegraded = lost.length > 0 || unopened > 0
        const status = !isServing ? 'not ready' : isDegraded ? 'degraded' : 'ready'
        return reply(isServing ? 200 : 503, {
          status,
          checks: { ...serving, evidence: lost.length === 0, secrets: unopened === 0 },
          ...(lost.length > 0 && { lost_history: lost }),
          ...(unopened > 0 && { unopened_secrets: unopened }),
        } satisfies z.input<typeof ReadyzResponse>)
      },
    }),
    route({
      method: 'GET',
      path: '/openapi.json',
      access: 'none',
      errors: 'flat',
      summary: 'Show the OpenAPI 3.1 description of this interface',
      tags: ['System'],
      responses: { 200: { description: 'The OpenAPI document' } },
      async handle() {
        // Imports the generator on first use, because it is large and most daemons never need it.
        description ??= import('./openapi.ts').then(({ openApiDocument }) =>
          JSON.stringify(openApiDocument(allRoutes())),
        )
        return reply(200, await description)
      },
    }),
    route({
      method: 'GET',
      path: '/docs',
      access: 'none',
      errors: 'flat',
      summary: 'Show the description of this interface as an HTML page',
      tags: ['System'],
      responses: { 200: { description: 'The page', text: 'text/html' } },
      async handle() {
        const [{ docsPage, DOCS_HEADERS }, { openApiDocument }] = await Promise.all([
          import('./description/docs-page.ts'),
          import('./openapi.ts'),
        ])
        page ??= docsPage(openApiDocument(allRoutes()))
        return reply(200, page, DOCS_HEADERS)
      },
    }),
  ]
}
