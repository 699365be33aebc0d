import type { IncomingMessage } from 'node:http'
import { LRUCache } from 'lru-cache'
import type { z } from 'zod'
import { ERRORS, GatewayError } from '../../../shared/errors.ts'
import { type PublishedKey, toKeySet } from '../../../shared/evidence/keys.ts'
import { PUBLIC_PROOF_RATE, UNKNOWN_BUNDLE_IDS } from '../../../shared/spec-limits.ts'
import type { Clock } from '../../../shared/time.ts'
import { FlatError } from '../../../shared/wire/common.ts'
import { KeySetResponse, type PublicProof, PublicProofResponse } from '../../../shared/wire/evidence.ts'
import type { Db } from '../../platform/db/db.ts'
import type { FreshCache } from '../../platform/db/fresh-cache.ts'
import { type CountRejection, createAddressRate } from '../../platform/http/address-rate.ts'
import { clientAddress, createAddressList } from '../../platform/http/client-address.ts'
import { type ResponseDoc, type Route, reply, route } from '../../platform/http/route.ts'
import { PAGE_HEADERS, problemPage, proofPage } from './proof-page.ts'
import { findPublicProof } from './public-proof.ts'
import { requireBundleId } from './receipt-routes.ts'
import type { SigningKeys } from './signing-keys.ts'

/** The maximum time for which clients may cache the published keys. */
const KEY_SET_MAX_AGE_SECONDS = 300

export type PublicRouteDeps = {
  db: Db
  clock: Clock
  keys: Pick<SigningKeys, 'published'>
  /**
   * A short-lived cache of the published keys. Anyone may request the keys, so the cache protects the store from most
   * of these requests.
   */
  keySet: Pick<FreshCache<PublishedKey[]>, 'of'>
  /**
   * Addresses and blocks of trusted proxies. Only their X-Forwarded-For header is used. By default, no proxy is
   * trusted.
   */
  trustedProxies?: readonly string[] | undefined
  /** Called for each request with an unknown or malformed bundle id, and for each request over the limit. */
  countRejection: CountRejection
}

/** Defines the public routes: the proof that a request is recorded, and the keys that verify the proof. */
export function publicEvidenceRoutes({
  db,
  clock,
  keys,
  keySet,
  trustedProxies = [],
  countRejection,
}: PublicRouteDeps): Route[] {
  const rate = createAddressRate({ clock, ...PUBLIC_PROOF_RATE })
  const proxies = createAddressList(trustedProxies)
  /** Unknown bundle ids, and when each was last looked up. */
  const unknownIds = new LRUCache<string, number>({ max: UNKNOWN_BUNDLE_IDS.max })
  let running = 0

  /** @throws RATE_LIMIT_EXCEEDED */
  function requireRate(address: string | undefined): void {
    const waitSeconds = rate.refuses(address)
    if (waitSeconds === undefined) return
    countRejection(address)
    throw tooOften(waitSeconds)
  }

  /** @throws INVALID_BUNDLE_ID, RECEIPT_NOT_FOUND, OVERLOADED */
  async function findProof(bundleId: string): Promise<PublicProof> {
    requireBundleId(bundleId)
    const lookedUpMs = unknownIds.get(bundleId)
    if (lookedUpMs !== undefined && clock.monotonic() - lookedUpMs < UNKNOWN_BUNDLE_IDS.ms) throw notFound()
    if (running >= PUBLIC_PROOF_RATE.atOnce) throw tooMany()
    running += 1
    try {
      const startedMs = clock.monotonic()
      const proof = await findPublicProof(db, await keys.published(), bundleId)
      if (proof) return proof
      unknownIds.set(bundleId, startedMs)
      throw notFound()
    } finally {
      running -= 1
    }
  }

  /**
   * @throws INVALID_BUNDLE_ID, RECEIPT_NOT_FOUND, and RATE_LIMIT_EXCEEDED or OVERLOADED for too many unauthenticated
   * requests
   */
  async function prove(request: IncomingMessage, bundleId: string): Promise<PublicProof> {
    const address = clientAddress(request, proxies)
    requireRate(address)
    try {
      return await findProof(bundleId)
    } catch (error) {
      if (error instanceof GatewayError && error.code !== 'OVERLOADED') countRejection(address)
      throw error
    }
  }

  const common: Pick<Route, 'method' | 'access' | 'errors' | 'tags'> = {
    method: 'GET',
    access: 'none',
    errors: 'flat',
    tags: ['Public evidence'],
  }
  const asPage: ResponseDoc = { description: 'The same proof as an HTML page', text: 'text/html' }

  return [
    route({
      ...common,
      path: '/api/public/verify/{bundleId}',
      summary: 'Prove that a request is recorded, without revealing its content',
      responses: {
        200: { description: 'Hashes, positions and times', schema: PublicProofResponse },
        404: { description: 'No request with this bundle id is recorded', schema: FlatError },
        429: { description: 'Too many requests from this address', schema: FlatError },
        503: { description: 'Too many requests in total', schema: FlatError },
      },
      async handle({ request, params: { bundleId = '' } }) {
        const proof = await prove(request, bundleId)
        return reply(200, { success: true, ...proof } satisfies z.input<typeof PublicProofResponse>, NOT_KEPT)
      },
    }),
    route({
      ...common,
      path: '/verify/{bundleId}',
      summary: 'Show the same proof as an HTML page',
      responses: { 200: asPage, 400: { ...asPage, schema: FlatError }, 404: asPage, 429: asPage, 503: asPage },
      async handle({ request, params: { bundleId = '' } }) {
        try {
          return reply(200, proofPage(await prove(request, bundleId)), { ...PAGE_HEADERS, ...NOT_KEPT })
        } catch (error) {
          if (!(error instanceof GatewayError)) throw error
          const { retryAfterSeconds } = error
          return reply(ERRORS[error.code].status, problemPage(error.message), {
            ...PAGE_HEADERS,
            ...(retryAfterSeconds !== undefined && { 'retry-after': String(retryAfterSeconds) }),
          })
        }
      },
    }),
    route({
      ...common,
      path: '/.well-known/aigw-keys.json',
      summary: 'List the public keys that sign or have signed evidence',
      responses: {
        200: { description: 'Active and retired keys (RFC 7517)', schema: KeySetResponse },
        429: { description: 'Too many requests with Cache-Control: no-cache from this address', schema: FlatError },
      },
      async handle({ request }) {
        // A client that does not know the `kid` of a proof sends `no-cache`, because another daemon may have just
        // rotated the key.
        const isFreshRequest = /\bno-cache\b/i.test(request.headers['cache-control'] ?? '')
        if (isFreshRequest) requireRate(clientAddress(request, proxies))
        return reply(200, toKeySet(isFreshRequest ? await keys.published() : await keySet.of('')), {
          'cache-control': `public, max-age=${KEY_SET_MAX_AGE_SECONDS}`,
        })
      },
    }),
  ]
}

/** Proofs must not be cached, because a pending layer soon becomes anchored. */
const NOT_KEPT = { 'cache-control': 'no-store' }

const notFound = () =>
  new GatewayError('RECEIPT_NOT_FOUND', 'No request with this bundle id is recorded. Check the id.')

const tooOften = (retryAfterSeconds: number) =>
  new GatewayError(
    'RATE_LIMIT_EXCEEDED',
    `An address may send ${PUBLIC_PROOF_RATE.perMinute} requests a minute, and all clients together ${PUBLIC_PROOF_RATE.total}. Retry later.`,
    {
      retryAfterSeconds,
    },
  )

const tooMany = () =>
  new GatewayError('OVERLOADED', 'Too many requests for proofs. Retry in a moment.', { retryAfterSeconds: 1 })
