/** Names and paths of indexes. */
import { toIndexName } from '../../../shared/index-name.ts'
import { usageError } from '../../errors.ts'
import { isId } from '../../resources/resolve.ts'

/** Normalises an index name as the gateway does. Throws a usage error if the name contains no valid characters. */
export function getIndexName(text: string): string {
  const name = toIndexName(text)
  if (name !== '') return name
  throw usageError(`'${text}' is not a valid index name`, ['A name has 3 to 50 of a-z, 0-9 and dashes.'])
}

/** Returns the reference of an index in routes for administrators: its id, or its normalised name. */
export const toIndexNameOrId = (text: string): string => (isId(text) ? text : getIndexName(text))

/** Returns the path of a route below one index. */
export const indexPath = (name: string, below: string): string => `indexes/${encodeURIComponent(name)}/${below}`
