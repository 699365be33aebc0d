import { beforeAll } from 'vitest'
import { endpointOf, type Route } from '../../src/daemon/platform/http/route.ts'
import { sharedGateway } from '../harness.ts'
import { addAdministrator } from './rights/callers.ts'
import { MULTIPART_BODY, ROUTE_CALLS } from './rights/route-calls.ts'
import { addWorld, freshName, type World } from './rights/world.ts'

/** Calls each route of a real daemon once, and returns the JSON responses by route and status, without secrets. */
export function recordExamples() {
  const shared = sharedGateway({ responses: { store: true } })
  const examples: Record<string, unknown> = {}
  beforeAll(async () => {
    const { app, adminKey } = shared.current
    const { tenant_id } = await app.db.selectFrom('api_keys').select('tenant_id').executeTakeFirstOrThrow()
    const world = await addWorld(app.db, 'example', tenant_id)
    for (const route of app.routes) {
      const answer = await call(route, world, adminKey)
      if (answer.body === undefined || !route.responses[answer.status]?.schema) continue
      examples[`${endpointOf(route)} ${answer.status}`] = withoutSecrets(answer.body)
    }
  })

  async function call(route: Route, world: World, operatorKey: string) {
    const row = ROUTE_CALLS[endpointOf(route)]
    if (!row) throw new Error(`test/contract/rights/route-calls.ts has no call of ${endpointOf(route)}`)
    // Each route gets its own key, because rate limits count per key.
    const { key } =
      row.access === 'operator' ? { key: operatorKey } : await addAdministrator(shared.current.app.db, world.tenantId)
    const target = (await row.target?.(shared.current.app.db, world)) ?? ''
    const path = route.path.replace(/\{.*\}/, target) + (row.query === undefined ? '' : `?${row.query}`)
    const body = row.bodies?.(world, freshName(world))[0] ?? (row.headers && MULTIPART_BODY)
    return shared.current.call(route.method, path, body, { key, headers: { ...row.headers } })
  }
  return { shared, examples }
}

function withoutSecrets(body: unknown): unknown {
  const text = JSON.stringify(body)
    .replace(/sk-[0-9a-f]{64}/g, 'sk-…')
    // Texts of users must not appear in other responses (test/secret-watch.ts).
    .replaceAll('Hello from the upstream.', 'Hello.')
    .replace(/whsec_[\w+/=-]+/g, 'whsec_…')
  return shortened(JSON.parse(text))
}

/** At most two items of each list, so that the description stays readable. */
function shortened(value: unknown): unknown {
  if (Array.isArray(value)) return value.slice(0, 2).map(shortened)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, shortened(member)]))
}
