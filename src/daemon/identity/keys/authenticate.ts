import { GatewayError } from '../../../shared/errors.ts'
import { secretHash as hashOf } from '../../../shared/ids.ts'
import { mayUse } from '../../../shared/permissions.ts'
import { REJECTED_KEYS } from '../../../shared/spec-limits.ts'
import type { Clock } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import { createFreshCache } from '../../platform/db/fresh-cache.ts'
import { type CountRejection, createAddressRate } from '../../platform/http/address-rate.ts'
import type { Caller } from '../../platform/http/caller.ts'
import {
  type AddressList,
  type ClientRequest,
  clientAddress,
  createAddressList,
} from '../../platform/http/client-address.ts'
import { rightsOfKey } from './rights.ts'
import { readSettings } from './settings.ts'
import { findPresentedKey, type PresentedKey } from './store.ts'

/** Maximum age of cached keys in a daemon, and therefore the maximum delay of a revocation. */
export const KEY_CACHE_MS = 2_000

const KEYS_CACHED = 10_000
/** Maximum number of rejected keys to cache. A client that retries with a wrong key uses only one entry. */
const REJECTED_KEYS_CACHED = 1_000

export type Authenticator = {
  /**
   * Returns the caller of the request. Returns and throws synchronously if the key was looked up within KEY_CACHE_MS.
   * @throws UNAUTHORIZED if the key is missing, malformed, unknown, revoked or expired, or if its owner is inactive or
   * its tenant disabled. CLIENT_ADDRESS_REFUSED if the key is not allowed from the client's address.
   * RATE_LIMIT_EXCEEDED if the client's address has sent too many rejected keys and the key was never accepted before.
   */
  authenticate(request: ClientRequest): Caller | Promise<Caller>
  /**
   * Whether the key of a running request is still valid. A revocation by this daemon applies immediately, and a
   * revocation by another daemon within KEY_CACHE_MS. The result is synchronous in the same cases as for
   * `authenticate`.
   */
  isAccepted(caller: Pick<Caller, 'secretHash'>): boolean | Promise<boolean>
  /** Invalidates the cached keys of a tenant. Call it after any change of its keys, users, roles or settings. */
  forgetKeys(tenantId: string): void
  /**
   * Reads the caller's current rights in this transaction. The hash of the presented key identifies the caller.
   * @throws UNAUTHORIZED if the key is no longer valid
   */
  lookUpAgain(tx: Db, caller: Caller): Promise<Caller>
}

export type AuthenticatorOptions = {
  db: Db
  clock: Clock
  /**
   * Addresses and blocks of trusted proxies. The X-Forwarded-For header is used only from these proxies. Empty by
   * default.
   */
  trustedProxies?: readonly string[] | undefined
  /** Called for each request with an unknown or malformed key. */
  countRejection?: CountRejection | undefined
}

/** The cache entry of a key. `allowedFrom` is undefined if every address is allowed. */
type KnownKey = { caller: Caller; expiresAtMs: number; allowedFrom: AddressList | undefined }

/**
 * Looks up keys by their SHA-256 and caches them for KEY_CACHE_MS. This time is the documented maximum delay of a
 * revocation.
 */
export function createAuthenticator({
  db,
  clock,
  trustedProxies = [],
  countRejection = () => {},
}: AuthenticatorOptions): Authenticator {
  const proxies = createAddressList(trustedProxies)
  const keys = createFreshCache<KnownKey>({
    clock,
    maxAgeMs: KEY_CACHE_MS,
    names: KEYS_CACHED,
    absentNames: REJECTED_KEYS_CACHED,
    async load(secretHash) {
      const found = await findPresentedKey(db, secretHash)
      if (!found) throw unknown()
      return toKnownKey(found, secretHash)
    },
  })

  // Without the exception, strangers could use up the total, and every key that is not cached yet would be refused.
  const rejected = createAddressRate({ clock, ...REJECTED_KEYS, sparesNewAddresses: true })

  /** Waits for the lookup of a key, and counts it if the key is rejected. */
  async function lookedUp(loading: Promise<KnownKey>, request: ClientRequest): Promise<KnownKey> {
    try {
      return await loading
    } catch (error) {
      if (error instanceof GatewayError) {
        const address = clientAddress(request, proxies)
        rejected.refuses(address)
        countRejection(address)
      }
      throw error
    }
  }

  /** Looks up a key. A cached rejection needs no lookup, so it counts for the event but not for the limit. */
  function lookUp(name: string, request: ClientRequest): KnownKey | Promise<KnownKey> {
    try {
      return keys.of(name)
    } catch (error) {
      countRejection(clientAddress(request, proxies))
      throw error
    }
  }

  /** @throws UNAUTHORIZED, or RATE_LIMIT_EXCEEDED if the key is malformed and the address has sent too many */
  function nameOf(request: ClientRequest): string {
    try {
      return hashOf(presentedKey(request.headers))
    } catch (error) {
      // A request without a key tries no key, so it is not counted.
      if (!hasKey(request.headers)) throw error
      const address = clientAddress(request, proxies)
      countRejection(address)
      const retryAfterSeconds = rejected.refuses(address)
      throw retryAfterSeconds === undefined ? error : tooManyRejected(retryAfterSeconds)
    }
  }

  /**
   * Checks the conditions that may differ between two requests with the same key: the time and the client's address.
   */
  function admit({ caller, expiresAtMs, allowedFrom }: KnownKey, request: ClientRequest): Caller {
    if (clock.now() >= expiresAtMs) throw expired()
    if (allowedFrom !== undefined) checkAddress(clientAddress(request, proxies), allowedFrom)
    return caller
  }

  return {
    authenticate(request) {
      const name = nameOf(request)
      // Keys that were accepted before still work, because many clients may share an address.
      const retryAfterSeconds = keys.knows(name) ? undefined : rejected.wouldRefuse(clientAddress(request, proxies))
      if (retryAfterSeconds !== undefined) throw tooManyRejected(retryAfterSeconds)
      const key = lookUp(name, request)
      return key instanceof Promise
        ? lookedUp(key, request).then((found) => admit(found, request))
        : admit(key, request)
    },
    isAccepted({ secretHash }) {
      const isInTime = ({ expiresAtMs }: KnownKey) => clock.now() < expiresAtMs
      const toVerdict = (error: unknown): false => {
        if (error instanceof GatewayError) return false
        throw error
      }
      try {
        const key = keys.of(secretHash)
        return key instanceof Promise ? key.then(isInTime, toVerdict) : isInTime(key)
      } catch (error) {
        return toVerdict(error)
      }
    },
    forgetKeys: (tenantId) => keys.forget(({ caller }) => caller.tenantId === tenantId),
    async lookUpAgain(tx, { secretHash }) {
      const found = await findPresentedKey(tx, secretHash)
      if (!found) throw unknown()
      const { caller, expiresAtMs } = toKnownKey(found, secretHash)
      if (clock.now() >= expiresAtMs) throw expired()
      return caller
    },
  }
}

/**
 * Anthropic's clients send `x-api-key`, and Google's clients `x-goog-api-key`. A request with two different keys is
 * rejected, because the caller is then ambiguous.
 */
function presentedKey({
  authorization,
  'x-api-key': apiKey,
  'x-goog-api-key': googleKey,
}: ClientRequest['headers']): string {
  if (apiKey === undefined && googleKey === undefined) return bearerToken(authorization)
  const bearer = authorization === undefined ? undefined : bearerToken(authorization)
  const given = [apiKey, googleKey, bearer].filter((key) => key !== undefined)
  const [key] = given
  if (typeof key !== 'string' || given.some((other) => other !== key)) {
    throw unauthorized('Send one API key, as "Authorization: Bearer <API_KEY>", "x-api-key" or "x-goog-api-key".')
  }
  return key
}

const hasKey = (headers: ClientRequest['headers']): boolean =>
  (headers.authorization ?? headers['x-api-key'] ?? headers['x-goog-api-key']) !== undefined

/** Returns the bearer token (RFC 6750 §2.1). The name of the scheme is case-insensitive. */
function bearerToken(authorization: string | undefined): string {
  if (authorization === undefined) throw unauthorized('Send your API key as "Authorization: Bearer <API_KEY>".')
  const token = /^bearer +(\S+)$/i.exec(authorization)?.[1]
  if (token === undefined) throw unauthorized('The Authorization header must read "Bearer <API_KEY>".')
  return token
}

function checkAddress(address: string | undefined, allowedFrom: AddressList): void {
  if (address !== undefined && allowedFrom.has(address)) return
  throw new GatewayError(
    'CLIENT_ADDRESS_REFUSED',
    address === undefined
      ? 'This key is limited to certain addresses, but your address is unknown: X-Forwarded-For is not a list of addresses.'
      : `This key may not be used from ${address}. Its allowedIPs do not include that address.`,
  )
}

function toKnownKey({ row, owner, ownerRights, tenantName }: PresentedKey, secretHash: string): KnownKey {
  const stored = readSettings(row.settings)
  const { settings } = stored
  const rights = rightsOfKey(stored, ownerRights)
  return {
    caller: {
      tenantId: row.tenant_id,
      tenantName,
      keyId: row.id,
      keyName: row.name,
      expiresAt: row.expires_at,
      secretHash,
      userId: owner.id,
      userName: owner.name,
      userEmail: owner.email,
      userRole: owner.role,
      userLicense: owner.license,
      userUsageByModel: owner.usageByModel,
      rights,
      isAdmin: mayUse(rights, 'user-management', 'admin'),
      isOperator: row.is_operator === 1,
      settings,
    },
    expiresAtMs: row.expires_at === null ? Number.POSITIVE_INFINITY : Date.parse(row.expires_at),
    allowedFrom: settings.allowedIPs.length === 0 ? undefined : createAddressList(settings.allowedIPs),
  }
}

const unauthorized = (message: string) => new GatewayError('UNAUTHORIZED', message)
const unknown = () =>
  unauthorized('The API key is unknown or revoked. Check the key, or ask an administrator for a new one.')
const tooManyRejected = (retryAfterSeconds: number) =>
  new GatewayError(
    'RATE_LIMIT_EXCEEDED',
    'Too many unknown or malformed API keys were sent from your address, its network or in total. Retry later.',
    { retryAfterSeconds },
  )
const expired = () => unauthorized('The API key has expired. Ask an administrator to extend it or to create a new one.')
