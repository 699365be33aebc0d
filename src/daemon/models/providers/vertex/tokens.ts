// Access tokens of a Google service account (RFC 7523: a signed assertion is exchanged for a token).
import { createPrivateKey, type KeyObject, sign } from 'node:crypto'
import type { Clock } from '../../../../shared/time.ts'
import { member, tokenCount } from '../../../platform/text/json.ts'
import type { GoogleCredentials } from '../../config.ts'
import type { ProviderDeps } from '../../pool.ts'
import { openPool } from '../../pool.ts'
import { ProviderError } from '../../provider.ts'
import { unreadableError } from '../stream/failure.ts'
import { readJson } from '../stream/read-answer.ts'
import type { Authorized } from '../stream/upstream.ts'

const SCOPE = 'https://www.googleapis.com/auth/cloud-platform'
const GRANT_TYPE = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
/** The longest lifetime that Google accepts for an assertion. */
const ASSERTION_SECONDS = 3_600
/** The timeout of the request for a token. */
const TOKEN_TIMEOUT_MS = 10_000
/** A new token is fetched this long before the old one expires. Calls use the old one meanwhile. */
const REFRESH_BEFORE_MS = 300_000
/** A token with less time than this is not used, because the call may arrive late. */
const LEAST_LEFT_MS = 60_000
/** The characters of a header. Google's tokens consist of them. */
const TOKEN = /^[\x21-\x7e]{1,8192}$/

export type AccessTokens = {
  /** Adds the token to the headers of a request. A call waits only if there is no usable token. */
  authorized: Authorized
  /** Drops the token, so that the next call fetches a new one. Call this if the server rejected the token. */
  forget(): void
  close(): Promise<void>
}

type Token = { value: string; expiresAt: number }

/** Fetches, caches and refreshes the tokens of a service account. At most one request for a token is in flight. */
export function createAccessTokens(
  credentials: GoogleCredentials,
  { clock, connect = openPool }: ProviderDeps,
): AccessTokens {
  const url = new URL(credentials.tokenUrl)
  const pool = connect(url)
  let key: KeyObject | undefined
  let token: Token | undefined
  let inFlight: Promise<Token> | undefined

  async function fetchToken(): Promise<Token> {
    key ??= createPrivateKey(credentials.privateKey)
    const startedAt = clock.monotonic()
    const form = new URLSearchParams({ grant_type: GRANT_TYPE, assertion: assertionOf(credentials, key, clock) })
    const answer = await readJson(
      {
        pool,
        clock,
        request: { path: url.pathname + url.search, headers: TOKEN_HEADERS, body: form.toString() },
        attemptMs: TOKEN_TIMEOUT_MS,
      },
      // A token is for all calls, so no call may abort its request.
      new AbortController().signal,
    ).catch((error) => {
      throw toTokenError(error)
    })
    const value = member(answer, 'access_token')
    const seconds = tokenCount(member(answer, 'expires_in'))
    if (typeof value !== 'string' || !TOKEN.test(value) || seconds === undefined) {
      throw unreadableError('an answer without a usable access token')
    }
    return { value, expiresAt: startedAt + seconds * 1_000 }
  }

  function refreshed(): Promise<Token> {
    inFlight ??= fetchToken()
      .then((fetched) => {
        token = fetched
        return fetched
      })
      .finally(() => {
        inFlight = undefined
      })
    return inFlight
  }

  return {
    authorized(headers, make) {
      const leftMs = token ? token.expiresAt - clock.monotonic() : 0
      if (token && leftMs > LEAST_LEFT_MS) {
        // If this fails, the calls that need a new token report the failure.
        if (leftMs <= REFRESH_BEFORE_MS) refreshed().catch(() => {})
        return make(withToken(headers, token))
      }
      return async () => {
        const source = make(withToken(headers, await refreshed()))
        return typeof source === 'function' ? source() : source
      }
    },
    forget() {
      token = undefined
    },
    close: () => pool.destroy(),
  }
}

const TOKEN_HEADERS = [
  ...['content-type', 'application/x-www-form-urlencoded'],
  // As for all calls: the gateway cannot decompress answers.
  ...['accept-encoding', 'identity'],
  ...['user-agent', 'aigw'],
]

const withToken = (headers: readonly string[], { value }: Token): string[] => [
  ...headers,
  'authorization',
  `Bearer ${value}`,
]

/** Returns a JSON Web Token that is signed with the account's key (RS256). */
function assertionOf({ clientEmail, privateKeyId, tokenUrl }: GoogleCredentials, key: KeyObject, clock: Clock): string {
  const issuedAt = Math.floor(clock.now() / 1_000)
  const header = { alg: 'RS256', typ: 'JWT', kid: privateKeyId }
  const claims = { iss: clientEmail, scope: SCOPE, aud: tokenUrl, iat: issuedAt, exp: issuedAt + ASSERTION_SECONDS }
  const text = [header, claims].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
  return `${text}.${sign('sha256', Buffer.from(text), key).toString('base64url')}`
}

/** Google answers 400 if it rejects the account or its key. Only the operator can correct that. */
function toTokenError(error: unknown): unknown {
  if (!(error instanceof ProviderError)) return error
  const { upstreamStatus: status = 0, retryAfterSeconds, said } = error
  const isRejected = status >= 400 && status < 500 && status !== 408 && status !== 429
  const reason = isRejected ? 'auth_failed' : error.reason
  return new ProviderError(reason, `There is no access token for the service account. ${error.message}`, {
    cause: error.cause,
    ...(status > 0 && { upstreamStatus: status }),
    retryAfterSeconds,
    alarm: isRejected || error.alarm,
    said,
  })
}
