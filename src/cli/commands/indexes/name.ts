import { toIndexName } from '../../../shared/index-name.ts'
import { usageError } from '../../errors.ts'

/** The name as the gateway calls the index. Throws a usage error when nothing of it is left. */
export function getIndexName(text: string): string {
  const name = toIndexName(text)
  if (name !== '') return name
  throw usageError(`'${text}' is no name for an index`, ['A name has 3 to 50 of a-z, 0-9 and dashes.'])
}

/** Path of one index, or of something below it, for the API client. */
export const indexPath = (name: string, below: string): string => `indexes/${encodeURIComponent(name)}/${below}`
