import { isoTime } from '../../shared/time.ts'
import type { CliContext } from '../context.ts'
import { usageError } from '../errors.ts'
import { type Field, field } from './fields.ts'

/** The forms that `parsePast` accepts, for help texts. */
export const PAST_FORMS = '30m, 12h or 7d ago, 2030-01-31 or 2030-01-31T12:00:00Z'

const UNIT_MS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 }
const TIME = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2}))?$/

/** Parses a past time and returns it as ISO 8601. For any other text, throws a usage error that names the flag. */
export function parsePast(text: string, flag: string, { io }: Pick<CliContext, 'io'>): string {
  const [, amount, unit = ''] = /^(\d{1,6})([mhdw])$/.exec(text) ?? []
  const time = TIME.test(text) ? Date.parse(text) : Number.NaN
  const ms = amount === undefined ? time : io.clock.now() - Number(amount) * (UNIT_MS[unit] ?? 0)
  if (!Number.isNaN(ms)) return isoTime(ms)
  throw usageError(`${flag} must be a time, not '${text}'`, ['Write 30m, 12h, 7d, or 2030-01-31T12:00:00Z.'])
}

/** The flags that limit a list to a time range. */
export const PERIOD: Field[] = [
  field('startDate', '--since <when>', `only those since then: ${PAST_FORMS}`, { parse: parsePast }),
  { member: 'endDate', flag: '--until <when>', help: 'only those until then; the same forms', parse: parsePast },
]
