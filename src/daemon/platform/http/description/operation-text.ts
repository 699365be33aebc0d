import { READ_RATE, WRITE_RATE } from '../../../../shared/spec-limits.ts'
import type { Access, Route } from '../route.ts'
import { toShortPath } from '../router.ts'

/** Returns the description of an operation: its access, its limits and its paths. */
export function operationText(route: Route): string {
  const short = toShortPath(route.path)
  return [
    `${route.summary}.`,
    accessText(route.access, route.method),
    ...(route.rate === 'write' ? [rateText(WRITE_RATE)] : route.rate === 'read' ? [rateText(READ_RATE)] : []),
    ...(route.rate === 'unmetered'
      ? ['The request does not count towards the daily and monthly limits of the key.']
      : []),
    ...(typeof route.bodyLimit === 'number' && route.body
      ? [`The body may have at most ${route.bodyLimit.toLocaleString('en')} bytes.`]
      : []),
    ...(route.body && route.bodyOptional ? ['The body may be empty.'] : []),
    ...(route.takesIdempotencyKey
      ? ['Retries with the same `Idempotency-Key` return the first response and are not billed again.']
      : []),
    ...(short ? [`Available at \`${short}\` and \`${route.path}\`.`] : []),
  ].join('\n\n')
}

function accessText(access: Access, method: Route['method']): string {
  if (access === 'none') return 'Requires no API key.'
  if (access === 'key') return 'Requires an API key.'
  if (access === 'operator') return 'Requires the operator key.'
  const level = method === 'GET' ? 'reader' : 'admin'
  return `Requires a key with administrator access whose owner has level \`${level}\` in the section \`${access}\`.`
}

const rateText = ({ minute, day, month }: typeof READ_RATE | typeof WRITE_RATE): string =>
  `Each key may call this route ${minute} times a minute, ${day.toLocaleString('en')} times a day and ${month.toLocaleString('en')} times a month.`
