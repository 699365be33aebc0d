import { isObject } from '../../../platform/text/json.ts'
import type { Moderation } from '../../provider.ts'
import { reportedError, unreadableError } from '../stream/failure.ts'

/** Returns the results of POST /moderations, in the order of the texts. @throws ProviderError */
export function toModerations(body: unknown, count: number): Moderation[] {
  if (!isObject(body)) throw unreadableError('an answer that is not an object')
  if (body.error !== undefined && body.error !== null) throw reportedError(body.error)
  const { results } = body
  if (!Array.isArray(results) || results.length !== count) {
    throw unreadableError('another number of results than texts')
  }
  return results.map((result) => {
    if (!isObject(result) || typeof result.flagged !== 'boolean') throw unreadableError('a result of an unknown kind')
    return {
      flagged: result.flagged,
      categories: membersOf(result.categories, (value) => typeof value === 'boolean'),
      category_scores: membersOf(result.category_scores, (value) => typeof value === 'number'),
    }
  })
}

/** Only members of the expected type, because no guard inspects the result. Their names are categories. */
function membersOf<T extends boolean | number>(value: unknown, isOf: (value: unknown) => boolean): Record<string, T> {
  const members = isObject(value) ? Object.entries(value) : []
  return Object.fromEntries(members.filter(([name, one]) => CATEGORY.test(name) && isOf(one))) as Record<string, T>
}

const CATEGORY = /^[\w/-]{1,64}$/
