/** Numbers of a fixed sequence (mulberry32), so that every mutation can be repeated from its seed. */
export type Random = (below: number) => number

export function randomFrom(seed: number): Random {
  let state = seed >>> 0
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

const pick = <T>(random: Random, values: readonly T[]): T => values[random(values.length)] as T
const CHARS = [
  '0',
  '9',
  'a',
  'f',
  'F',
  '"',
  '\\',
  ' ',
  '\n',
  '\r',
  '\t',
  '{',
  '}',
  ',',
  ':',
  '=',
  '+',
  '—',
  '\ufeff',
  '\u0000',
]

/** Changes a text at one to three places, as damage in transit or a careless forger would. */
export function mutateText(text: string, random: Random): string {
  let changed = text
  for (let left = 1 + random(3); left > 0; left -= 1) changed = mutateOnce(changed, random)
  return changed
}

function mutateOnce(text: string, random: Random): string {
  const at = random(text.length + 1)
  const end = Math.min(text.length, at + 1 + random(8))
  switch (random(9)) {
    case 0:
      return text.slice(0, at) + pick(random, CHARS) + text.slice(at + 1)
    case 1:
      return text.slice(0, at) + pick(random, CHARS) + text.slice(at)
    case 2:
      return text.slice(0, at) + text.slice(end)
    case 3:
      return text.slice(0, end) + text.slice(at, end) + text.slice(end)
    case 4:
      return text.slice(0, at) + String.fromCharCode(text.charCodeAt(at) ^ (1 << random(7))) + text.slice(at + 1)
    case 5:
      return text.replace(/[0-9a-f](?=[0-9a-f]{8})/g, (digit) =>
        random(60) === 0 ? pick(random, [...'0123456789abcdefF']) : digit,
      )
    case 6:
      return mutateLines(text, random)
    case 7:
      return text.replace(/\d+/g, (digits) => (random(20) === 0 ? pick(random, NUMBERS) : digits))
    default:
      return mutateJson(text, random)
  }
}

const NUMBERS = [
  '0',
  '-1',
  '1',
  '2',
  '1.0',
  '1e0',
  '1.5',
  '-0',
  '9007199254740992',
  '01',
  '1e999',
  'NaN',
  '"1"',
  'null',
]

function mutateLines(text: string, random: Random): string {
  const lines = text.split('\n')
  const [at, other] = [random(lines.length), random(lines.length)]
  const line = lines[at] ?? ''
  switch (random(5)) {
    case 0:
      return lines.toSpliced(at, 1).join('\n')
    case 1:
      return lines.toSpliced(other, 0, line).join('\n')
    case 2:
      return lines
        .with(at, lines[other] ?? '')
        .with(other, line)
        .join('\n')
    case 3:
      return lines.with(at, `${line}\r`).join('\n')
    default:
      return lines.toSpliced(at, 0, '').join('\n')
  }
}

/** Values that replace a value of a JSON text. Some equal it for lenient parsers. */
export const STRANGE_VALUES: readonly unknown[] = [
  null,
  true,
  '',
  ' ',
  0,
  -1,
  1.5,
  2 ** 53,
  '0',
  'x',
  [],
  {},
  '\ud800',
  '\u0000',
]

/** Changes one value of a JSON text, or of one line of it. */
function mutateJson(text: string, random: Random): string {
  const lines = text.split('\n')
  const at = random(lines.length)
  const [whole, part] = [parsed(text), parsed(lines[at] ?? '')]
  if (whole === undefined && part === undefined) return text
  const value = whole ?? part
  const found = pathsOf(value)
  if (found.length === 0) return text
  const path = pick(random, found)
  const strange = random(4) === 0 ? repeated(value, path) : withValue(value, path, pick(random, STRANGE_VALUES))
  const changed = JSON.stringify(strange)
  return whole === undefined ? lines.with(at, changed).join('\n') : changed
}

const parsed = (text: string): object | undefined => {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : undefined
  } catch {
    return undefined
  }
}

export type Path = readonly string[]

/** The paths of all values inside a JSON value. */
export const pathsOf = (value: unknown, above: Path = []): Path[] =>
  typeof value !== 'object' || value === null
    ? []
    : Object.entries(value).flatMap(([name, inner]) => [[...above, name], ...pathsOf(inner, [...above, name])])

/** A copy in which one value is replaced, or removed if `change` is undefined. */
export function withValue(value: unknown, [name = '', ...rest]: Path, change: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  const copy = Array.isArray(value) ? [...value] : { ...value }
  if (rest.length > 0) Reflect.set(copy, name, withValue(Reflect.get(copy, name), rest, change))
  else if (change !== undefined) Reflect.set(copy, name, change)
  else if (Array.isArray(copy)) copy.splice(Number(name), 1)
  else Reflect.deleteProperty(copy, name)
  return copy
}

/** A copy in which an element of a list is there twice, or an object contains itself under its own name. */
function repeated(value: unknown, path: Path): unknown {
  const [above, inner] = [valueAt(value, path.slice(0, -1)), valueAt(value, path)]
  if (Array.isArray(above)) return withValue(value, [...path.slice(0, -1), String(above.length)], inner)
  return withValue(value, typeof inner === 'object' ? [...path, path.at(-1) ?? ''] : path, inner)
}

const valueAt = (value: unknown, path: Path): unknown =>
  path.reduce<unknown>((found, step) => Reflect.get(Object(found), step), value)

/**
 * Every value of a JSON value replaced by every strange value, removed, repeated, and every object with one member more.
 */
export function* structuredChanges(value: unknown): Generator<{ what: string; changed: unknown }> {
  for (const path of [[], ...pathsOf(value)]) {
    const name = path.join('.')
    if (path.length > 0) {
      yield { what: `without ${name}`, changed: withValue(value, path, undefined) }
      for (const strange of STRANGE_VALUES) {
        yield { what: `${name} = ${JSON.stringify(strange)}`, changed: withValue(value, path, strange) }
      }
    }
    const inner = valueAt(value, path)
    if (typeof inner !== 'object' || inner === null) continue
    if (path.length > 0) yield { what: `${name} repeated`, changed: repeated(value, path) }
    const more = Array.isArray(inner) ? String(inner.length) : 'more'
    yield { what: `${name} with one member more`, changed: withValue(value, [...path, more], 1) }
  }
}
