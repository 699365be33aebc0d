import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { GatewayError } from '../../shared/errors.ts'
import { KEY_CACHE_MS } from '../../shared/spec-limits.ts'
import type { Clock } from '../../shared/time.ts'
import type { Db } from '../db/database.ts'
import type { Caller } from '../http/caller.ts'
import { findKeyOwner } from './store.ts'

const KEYS_CACHED = 10_000

export type Authenticator = {
  /**
   * `Authorization` header → whom the request speaks for. Answers at once for a key it looked up within KEY_CACHE_MS.
   * @throws UNAUTHORIZED when the key is missing, malformed, unknown, revoked or expired.
   */
  authenticate(authorization: string | undefined): Caller | Promise<Caller>
}

type Cached = { caller: Caller; expiresAtMs: number; lookedUpAtMs: number }

/** Looks keys up by their SHA-256 and remembers them for KEY_CACHE_MS, the published bound on a revocation's delay. */
export function createAuthenticator({ db, clock }: { db: Db; clock: Clock }): Authenticator {
  const cache = new LRUCache<string, Cached>({ max: KEYS_CACHED })

  async function lookUp(secretHash: string): Promise<Caller> {
    const lookedUpAtMs = clock.now()
    const owner = await findKeyOwner(db, secretHash)
    if (!owner) {
      cache.delete(secretHash)
      throw unauthorized('The API key is not known or was revoked.')
    }
    const expiresAtMs = owner.expiresAt === null ? Number.POSITIVE_INFINITY : Date.parse(owner.expiresAt)
    cache.set(secretHash, { caller: owner.caller, expiresAtMs, lookedUpAtMs })
    return unlessExpired(owner.caller, expiresAtMs, clock.now())
  }

  return {
    authenticate(authorization) {
      const secretHash = hash('sha256', bearerToken(authorization), 'hex')
      const known = cache.get(secretHash)
      const now = clock.now()
      if (known && now - known.lookedUpAtMs < KEY_CACHE_MS) return unlessExpired(known.caller, known.expiresAtMs, now)
      return lookUp(secretHash)
    },
  }
}

/** RFC 6750 §2.1; the scheme's name is case-insensitive. */
function bearerToken(authorization: string | undefined): string {
  if (authorization === undefined) throw unauthorized('Send your API key as "Authorization: Bearer <API_KEY>".')
  const token = /^bearer +(\S+)$/i.exec(authorization)?.[1]
  if (token === undefined) throw unauthorized('The Authorization header must read "Bearer <API_KEY>".')
  return token
}

function unlessExpired(caller: Caller, expiresAtMs: number, now: number): Caller {
  if (now >= expiresAtMs) throw unauthorized('The API key has expired.')
  return caller
}

const unauthorized = (message: string) => new GatewayError('UNAUTHORIZED', message)
