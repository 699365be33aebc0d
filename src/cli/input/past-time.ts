import { isoTime } from '../../shared/time.ts'
import type { CliContext } from '../context.ts'
import { usageError } from '../errors.ts'

/** What `toPast` takes, for help texts. */
export const PAST_FORMS = '30m, 12h or 7d ago, 2030-01-31 or 2030-01-31T12:00:00Z'

const UNIT_MS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 }
const TIME = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2}))?$/

/** ISO 8601 of a time that was. Throws a usage error naming the flag for what is none. */
export function toPast(text: string, flag: string, nowMs: number): string {
  const [, amount, unit = ''] = /^(\d{1,6})([mhdw])$/.exec(text) ?? []
  const ms =
    amount === undefined
      ? TIME.test(text)
        ? Date.parse(text)
        : Number.NaN
      : nowMs - Number(amount) * (UNIT_MS[unit] ?? 0)
  if (Number.isNaN(ms)) {
    throw usageError(`${flag} must be a time, not '${text}'`, ['Write 30m, 12h, 7d, or 2030-01-31T12:00:00Z.'])
  }
  return isoTime(ms)
}

/** The same for a field of a command. */
export const parsePast = (text: string, flag: string, { io }: CliContext): string => toPast(text, flag, io.clock.now())
