// Finds a member that occurs twice in one object. JSON.parse keeps the last one, and other parsers keep the first, so
// two programs could read different values from the same text.

const [QUOTE, COMMA, BACKSLASH] = [0x22, 0x2c, 0x5c]
const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d]
/** The maximum length of a shown name, and the maximum number of shown names of a path. */
const SHOWN = { chars: 100, names: 32 } as const
const STEP_CHARS = 262_144

/** A member that occurs twice. `where` is the path of its object, such as `messages.0`. Empty for the body itself. */
export type DoubledMember = { name: string; where: string }

/** An open array or object. `at` is the name or position of the current child. */
type Open = { names: Set<string> | undefined; at: string | number }

/** Returns the first member of a JSON text that occurs twice in its object. The text must be valid JSON. */
export function findDoubledMember(json: string): DoubledMember | undefined {
  const search = findingDoubledMember(json)
  for (let step = search.next(); ; step = search.next()) if (step.done) return step.value
}

/** Like `findDoubledMember`, but yields after each part of a long text. */
export function* findingDoubledMember(json: string): Generator<void, DoubledMember | undefined> {
  const open: Open[] = []
  let isName = false
  let yieldAt = STEP_CHARS
  for (let at = 0; at < json.length; at++) {
    const sign = json.charCodeAt(at)
    const inner = open.at(-1)
    if (sign === QUOTE) {
      const end = stringEnd(json, at)
      if (isName && inner?.names) {
        const name: string = JSON.parse(json.slice(at, end + 1))
        if (inner.names.has(name)) return { name: shown(name), where: pathOf(open.slice(0, -1)) }
        inner.names.add(name)
        inner.at = name
        isName = false
      }
      at = end
    } else if (sign === OPEN_OBJECT || sign === OPEN_ARRAY) {
      isName = sign === OPEN_OBJECT
      open.push({ names: isName ? new Set() : undefined, at: 0 })
    } else if (sign === CLOSE_OBJECT || sign === CLOSE_ARRAY) open.pop()
    else if (sign === COMMA && inner) {
      isName = inner.names !== undefined
      if (typeof inner.at === 'number') inner.at += 1
    }
    if (at >= yieldAt) {
      yieldAt = at + STEP_CHARS
      yield
    }
  }
  return undefined
}

/** Returns the position of the quote that closes the string that begins at `start`. */
function stringEnd(json: string, start: number): number {
  for (let end = json.indexOf('"', start + 1); end >= 0; end = json.indexOf('"', end + 1)) {
    let escapes = 0
    while (json.charCodeAt(end - 1 - escapes) === BACKSLASH) escapes += 1
    if (escapes % 2 === 0) return end
  }
  return json.length
}

const shown = (name: string): string => name.slice(0, SHOWN.chars)

const pathOf = (open: readonly Open[]): string =>
  open
    .slice(0, SHOWN.names)
    .map(({ at }) => shown(String(at)))
    .join('.')

/** Returns the number of members of all objects in a parsed JSON value. Members that occur twice count once. */
export function countMembers(value: unknown): number {
  let count = 0
  if (Array.isArray(value)) {
    for (const item of value) if (typeof item === 'object' && item !== null) count += countMembers(item)
  } else if (typeof value === 'object' && value !== null) {
    for (const name in value) {
      count += 1
      const member = (value as Record<string, unknown>)[name]
      if (typeof member === 'object' && member !== null) count += countMembers(member)
    }
  }
  return count
}

/** How many values one step of `countingMembers` visits. */
const STEP_VALUES = 32_768

/** Like `countMembers`, but yields after each part of a large value. */
export function* countingMembers(value: unknown): Generator<void, number> {
  let count = 0
  let left = STEP_VALUES
  const open: unknown[] = typeof value === 'object' && value !== null ? [value] : []
  for (let inner = open.pop(); inner !== undefined; inner = open.pop()) {
    if (!Array.isArray(inner)) {
      for (const name in inner as object) {
        count += 1
        left -= 1
        const member = (inner as Record<string, unknown>)[name]
        if (typeof member === 'object' && member !== null) open.push(member)
      }
    } else {
      left -= inner.length
      for (const item of inner) if (typeof item === 'object' && item !== null) open.push(item)
    }
    if (left <= 0) {
      left = STEP_VALUES
      yield
    }
  }
  return count
}
