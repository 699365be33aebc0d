const TOKEN = /("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?|[{}[\]]/g

/**
 * Whether an object of a JSON text has a member twice. A parser takes the last of them, a person and some other parsers the
 * first: such a text says two things, of which one was signed. The text must be JSON.
 */
export function hasDoubledMember(json: string): boolean {
  const open: Set<unknown>[] = []
  for (const [token, name, colon] of json.matchAll(TOKEN)) {
    if (token === '{' || token === '[') open.push(new Set())
    else if (token === '}' || token === ']') open.pop()
    else if (name !== undefined && colon !== undefined) {
      const member: unknown = JSON.parse(name)
      const members = open.at(-1)
      if (members?.has(member)) return true
      members?.add(member)
    }
  }
  return false
}
