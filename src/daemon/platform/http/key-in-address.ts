import type { IncomingMessage } from 'node:http'
import { GatewayError } from '../../../shared/errors.ts'

const HEADER = 'x-goog-api-key'

/**
 * Moves the API key from the query to the header `x-goog-api-key`, and returns the rest of the query. Afterwards the
 * request's URL does not contain the key, so no later code can log or store the key.
 * @throws UNAUTHORIZED if the request contains different keys
 */
export function takeKeyFromAddress(request: IncomingMessage, path: string, search: string): string {
  // Most clients send a header. An encoded name, such as `%6Bey`, also contains a percent sign.
  if (!search.includes('key') && !search.includes('%')) return search
  const query = new URLSearchParams(search)
  const keys = query.getAll('key').filter((key) => key !== '')
  query.delete('key')
  const rest = query.toString()
  request.url = rest === '' ? path : `${path}?${rest}`
  const [key] = keys
  if (key === undefined) return rest
  const header = request.headers[HEADER]
  if (keys.some((other) => other !== key) || (header !== undefined && header !== key)) {
    throw new GatewayError(
      'UNAUTHORIZED',
      `Send one API key, as the header "${HEADER}" or as the query parameter "key".`,
    )
  }
  request.headers[HEADER] = key
  return rest
}
