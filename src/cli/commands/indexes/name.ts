import { toIndexName } from '../../../shared/index-name.ts'
import { usageError } from '../../errors.ts'
import { isId } from '../../resources/resolve.ts'

/** The name as the gateway calls the index. Throws a usage error when nothing of it is left. */
export function getIndexName(text: string): string {
  const name = toIndexName(text)
  if (name !== '') return name
  throw usageError(`'${text}' is no name for an index`, ['A name has 3 to 50 of a-z, 0-9 and dashes.'])
}

/** What names an index to administrators: its id, or its name as the gateway has it. */
export const toIndexNameOrId = (text: string): string => (isId(text) ? text : getIndexName(text))

/** Path of one index, or of something below it, for the API client. */
export const indexPath = (name: string, below: string): string => `indexes/${encodeURIComponent(name)}/${below}`
