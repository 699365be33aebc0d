import { FlatError, StructuredError } from '../../../shared/wire/common.ts'
import type { ResponseDoc, Route } from './route.ts'

type Described = Pick<Route, 'access' | 'errors' | 'path' | 'bodyLimit'> & Partial<Pick<Route, 'body' | 'query'>>

/**
 * What a route may answer before its handler runs, by status: the same for all that ask for the same. Routes that answer in
 * the shape of somebody else's interface describe these statuses themselves.
 */
export function refusalsOf({ access, errors, path, body, query, bodyLimit }: Described): Record<number, ResponseDoc> {
  const schema = errors === 'structured' ? StructuredError : FlatError
  const refused = (description: string): ResponseDoc => ({ description, schema })
  const takesBody = body !== undefined || bodyLimit === 'unread'
  return {
    ...((takesBody || query || path.includes('{')) && { 400: refused('A field or parameter is missing or wrong') }),
    ...(access !== 'none' && {
      401: refused('Key missing or invalid'),
      403: refused(REFUSED_ACCESS[access] ?? 'Not an administrator, or the key may not be used from this address'),
      429: refused('A limit of the key, or of this route, is reached'),
    }),
    ...(takesBody && { 413: refused('The body is too large') }),
    ...(body && { 415: refused('The body is not declared as JSON') }),
  }
}

const REFUSED_ACCESS: Record<string, string> = {
  key: 'The key may not be used from this address',
  operator: 'Not the operator key, or it may not be used from this address',
}
