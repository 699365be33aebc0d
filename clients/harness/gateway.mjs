// The real daemon with an empty SQLite store and its default policy. All its providers are the simulated provider.
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { spawnDaemon } from '../../bench/candidates.mjs'

/** The model of each interface, and further names that clients use for work of their own. */
const MODELS = {
  chat: ['gpt-5', 'gpt-5-mini', 'gpt-5-nano', 'gpt-4o', 'gpt-4o-mini', 'gpt-4.1', 'gpt-4.1-mini'],
  responses: ['gpt-5.1', 'gpt-5-codex', 'gpt-5.1-codex', 'gpt-5.1-codex-mini', 'gpt-5.1-codex-max'],
  messages: ['claude-sonnet-4-5', 'claude-haiku-4-5', 'claude-opus-4-1', 'claude-haiku-4-5-20251001', 'claude-opus-5'],
  gemini: ['gemini-2.5-pro', 'gemini-2.5-flash', 'gemini-2.5-flash-lite'],
}

/** The name of the model that a client of this interface uses. */
export const modelOf = (name) => MODELS[name][0]

const configOf = (providerUrl) => ({
  discover_local: false,
  limits: { keep_alive: '1s' },
  providers: {
    chat: { kind: 'openai', base_url: `${providerUrl}/v1`, api_key: 'sk-provider' },
    responses: { kind: 'openai', api: 'responses', base_url: `${providerUrl}/v1`, api_key: 'sk-provider' },
    messages: { kind: 'anthropic', base_url: providerUrl, api_key: 'sk-provider' },
    gemini: { kind: 'google', base_url: providerUrl, api_key: 'sk-provider' },
  },
  models: Object.fromEntries(
    Object.entries(MODELS).flatMap(([provider, names]) => names.map((name) => [name, `${provider}/${name}`])),
  ),
})

/** Limits of rates are not what these clients test. */
const UNLIMITED = {
  rateLimit: { requestsPerMinute: null, requestsPerHour: null },
  dailyLimit: null,
  monthlyLimit: null,
}

const RECEIPTS_WAIT_MS = 10_000
const RECEIPTS_POLL_MS = 30
const PAGE = 100

/**
 * Starts the daemon.
 * @param {import('../../bench/session.mjs').Session} session
 * @param {{providerUrl: string, home?: string}} options `home`: the directory of another build
 */
export async function startGateway(session, { providerUrl, home }) {
  const { child, key: operatorKey } = spawnDaemon(session, {
    dir: path.join(session.dir, 'gateway'),
    settings: configOf(providerUrl),
    ...(home && { home }),
  })
  const { url } = await child.listening

  async function call(method, route, body, key) {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const response = await fetch(`${url}${route}`, { method, headers, ...(body && { body: JSON.stringify(body) }) })
    const answer = await response.json()
    if (!response.ok) throw new Error(`${method} ${route}: ${response.status} ${JSON.stringify(answer)}`)
    return answer
  }

  const tenant = { name: 'Clients', admin: { name: 'Ada', email: 'ada@example.com' } }
  const { secret: adminKey, apiKey } = await call('POST', '/api/admin/tenants', tenant, operatorKey)
  await call('PUT', `/api/admin/api-keys/${apiKey.id}`, UNLIMITED, adminKey)

  async function idsOfRequests(keyId) {
    const ids = []
    for (let page = 1; ; page++) {
      const query = `apiKeyId=${keyId}&type=api_access&limit=${PAGE}&page=${page}&sortOrder=asc`
      const { data } = await call('GET', `/api/external/activity-logs?${query}`, undefined, adminKey)
      ids.push(...data.logs.map(({ id }) => id))
      if (data.logs.length < PAGE) return ids
    }
  }

  return {
    url,
    output: child.output,
    /** Creates a key without limits for one cell of the table. */
    async createKey(name) {
      const body = { name, adminAccess: false, ...UNLIMITED }
      const created = await call('POST', '/api/admin/api-keys', body, adminKey)
      return { id: created.apiKey.id, secret: created.secret }
    },
    /**
     * Reads the receipts of a key, oldest first. Waits until there are `count`, because the receipt of an aborted
     * request is committed after the client has left.
     */
    async receipts(keyId, count) {
      const deadline = Date.now() + RECEIPTS_WAIT_MS
      let ids = await idsOfRequests(keyId)
      while (ids.length < count && Date.now() < deadline) {
        await sleep(RECEIPTS_POLL_MS)
        ids = await idsOfRequests(keyId)
      }
      const receipts = []
      for (const id of ids)
        receipts.push((await call('GET', `/api/external/receipts/${id}`, undefined, adminKey)).receipt)
      return receipts
    },
  }
}
