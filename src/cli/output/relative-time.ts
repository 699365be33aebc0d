/** Formats points in time for people. Pipes, files and JSON contain the exact time instead. */

const ISO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/
/** Each unit, and the seconds in it. The units are in descending order. */
const UNITS: [string, number][] = [
  ['year', 31_557_600],
  ['month', 2_629_800],
  ['day', 86_400],
  ['h', 3_600],
  ['min', 60],
  ['s', 1],
]
const WORDS: ReadonlySet<string> = new Set(['year', 'month', 'day'])

/** Returns `3 days ago` or `in 5 min` for an ISO 8601 time in UTC. Returns undefined for any other value. */
export function relativeTime(value: unknown, now: number): string | undefined {
  if (typeof value !== 'string' || !ISO_TIME.test(value)) return undefined
  const seconds = Math.round((Date.parse(value) - now) / 1_000)
  if (!Number.isFinite(seconds)) return undefined
  const unit = UNITS.find(([, size]) => Math.abs(seconds) >= size)
  if (unit === undefined) return 'now'
  const [name, size] = unit
  const count = Math.floor(Math.abs(seconds) / size)
  const text = `${count} ${name}${count !== 1 && WORDS.has(name) ? 's' : ''}`
  return seconds < 0 ? `${text} ago` : `in ${text}`
}
