const TOKEN = /("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?|[{}[\]]/g

/**
 * Whether an object in a JSON text has duplicate members. Some parsers use the first duplicate and other parsers use
 * the last, so it would be unclear which value was signed. The text must be valid JSON.
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
