import type { IncomingMessage } from 'node:http'
import { GatewayError } from '../../../shared/errors.ts'
import { logId } from '../../../shared/evidence/entry.ts'
import { entriesUnder, parseTilePath } from '../../../shared/evidence/tile.ts'
import { type Clock, DAY_MS } from '../../../shared/time.ts'
import { StructuredError } from '../../../shared/wire/common.ts'
import type { Db } from '../../platform/db/db.ts'
import { createFreshCache } from '../../platform/db/fresh-cache.ts'
import { createAddressRate } from '../../platform/http/address-rate.ts'
import { clientAddress, createAddressList } from '../../platform/http/client-address.ts'
import { type Reply, type Route, reply, route } from '../../platform/http/route.ts'
import { withCosignatures } from './cosignatures.ts'
import { readTile } from './proofs.ts'
import { findCheckpoint, type MeasuredChain, measureChains } from './store.ts'

/**
 * The limits on public tiles: the requests per address and minute, the concurrent requests, and the number of addresses
 * that are counted separately.
 */
export const PUBLIC_TILE_RATE = { perMinute: 1_200, total: 30_000, atOnce: 16, addresses: 30_000 } as const
/** How long the sizes of all logs are cached for public requests. */
const LOGS_MAX_AGE_MS = 5_000
const IMMUTABLE_SECONDS = (365 * DAY_MS) / 1000

export type TileRouteDeps = {
  db: Db
  clock: Clock
  /** Whether anyone may read the tiles of every log. */
  isPublic: boolean
  trustedProxies?: readonly string[] | undefined
}

/** Who may cache a response. */
type Audience = 'public' | 'private'

/**
 * Defines the routes of C2SP tlog-tiles: the checkpoint of a log, and its tree as tiles of hashes. Entries are not
 * served: a hash reveals nothing of its entry. Only tiles that a checkpoint covers are served, so each of them is
 * immutable.
 */
export function tileRoutes({ db, clock, isPublic, trustedProxies = [] }: TileRouteDeps): Route[] {
  const rate = createAddressRate({ clock, ...PUBLIC_TILE_RATE })
  const proxies = createAddressList(trustedProxies)
  const published = createFreshCache({
    clock,
    maxAgeMs: LOGS_MAX_AGE_MS,
    load: async () => new Map((await measureChains(db)).map((log) => [logId(log.tenant_id, log.chain), log])),
  })
  let running = 0

  const responses: Route['responses'] = {
    200: { description: 'The checkpoint as text, or the hashes of a tile', text: 'application/octet-stream' },
    404: { description: 'No such log, or its last checkpoint does not cover this tile', schema: StructuredError },
  }

  /** @throws LOG_NOT_FOUND, RATE_LIMIT_EXCEEDED, OVERLOADED */
  async function serveAnyone(request: IncomingMessage, id: string, path: string): Promise<Reply> {
    if (!isPublic) throw noSuchLog()
    const retryAfterSeconds = rate.refuses(clientAddress(request, proxies))
    if (retryAfterSeconds !== undefined) {
      const message = `An address may send ${PUBLIC_TILE_RATE.perMinute} requests a minute, and all clients together ${PUBLIC_TILE_RATE.total}. Retry later.`
      throw new GatewayError('RATE_LIMIT_EXCEEDED', message, { retryAfterSeconds })
    }
    if (running >= PUBLIC_TILE_RATE.atOnce) {
      throw new GatewayError('OVERLOADED', 'Too many requests for tiles. Retry in a moment.', { retryAfterSeconds: 1 })
    }
    running += 1
    try {
      return await serve((await published.of('')).get(id), path, 'public')
    } finally {
      running -= 1
    }
  }

  /** @throws LOG_NOT_FOUND, TILE_NOT_FOUND, EVIDENCE_MISMATCH */
  async function serve(log: MeasuredChain | undefined, path: string, audience: Audience): Promise<Reply> {
    if (log === undefined || log.checkpointed === 0) throw noSuchLog()
    const { tenant_id, chain, checkpointed } = log
    if (path === 'checkpoint') {
      const last = await findCheckpoint(db, tenant_id, chain, checkpointed)
      const [checkpoint] = await withCosignatures(db, tenant_id, last ? [last] : [])
      if (checkpoint === undefined) throw noSuchLog()
      return reply(200, Buffer.from(checkpoint.note), CHECKPOINT_HEADERS)
    }
    const tile = parseTilePath(path)
    if (tile === undefined || entriesUnder(tile) > checkpointed) throw noSuchTile()
    try {
      return reply(200, await readTile(db, tenant_id, chain, tile), tileHeaders(audience))
    } catch (error) {
      throw error instanceof RangeError ? damaged() : error
    }
  }

  return [
    route({
      method: 'GET',
      path: '/api/external/transparency/tlog/{logId}/{path}',
      takesRest: true,
      access: 'smltp-security',
      rate: 'unmetered',
      errors: 'structured',
      tags: ['Transparency'],
      summary: 'Read the checkpoint or a tile of a log of the tenant (C2SP tlog-tiles)',
      responses: {
        ...responses,
        409: { description: 'Entries of the log are missing from the store', schema: StructuredError },
      },
      async handle({ caller: { tenantId }, params: { logId: id = '', path = '' } }) {
        const log = (await measureChains(db, tenantId)).find(({ chain }) => logId(tenantId, chain) === id)
        return serve(log, path, 'private')
      },
    }),
    route({
      method: 'GET',
      path: '/tlog/{logId}/{path}',
      takesRest: true,
      access: 'none',
      errors: 'structured',
      tags: ['Public evidence'],
      summary: 'Read the checkpoint or a tile of a log, if the operator publishes them (C2SP tlog-tiles)',
      responses: {
        ...responses,
        409: { description: 'Entries of the log are missing from the store', schema: StructuredError },
        429: { description: 'Too many requests from this address', schema: StructuredError },
        503: { description: 'Too many requests in total', schema: StructuredError },
      },
      handle: ({ request, params: { logId: id = '', path = '' } }) => serveAnyone(request, id, path),
    }),
  ]
}

/** The next checkpoint replaces this one at the same address. */
const CHECKPOINT_HEADERS = {
  'content-type': 'text/plain; charset=utf-8',
  'cache-control': 'no-cache',
  'x-content-type-options': 'nosniff',
}

const tileHeaders = (audience: Audience) => ({
  'content-type': 'application/octet-stream',
  'cache-control': `${audience}, max-age=${IMMUTABLE_SECONDS}, immutable`,
  'x-content-type-options': 'nosniff',
})

const noSuchLog = () =>
  new GatewayError(
    'LOG_NOT_FOUND',
    'No log with a checkpoint has this id. GET /api/external/transparency/checkpoints lists the logs of a tenant: the id is the last part of the origin.',
  )

const noSuchTile = () =>
  new GatewayError(
    'TILE_NOT_FOUND',
    'The last checkpoint of the log does not cover this tile. A path has the form tile/<level>/<index>[.p/<width>].',
  )

const damaged = () => new GatewayError('EVIDENCE_MISMATCH', 'Entries of this log are missing from the store.')
