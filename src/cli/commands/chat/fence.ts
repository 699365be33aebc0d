/** Fenced code blocks of Markdown (CommonMark 4.5). */
export type Fence = { indent: number; mark: string; language: string }

export function findFence(line: string): Fence | undefined {
  const [, indent, mark, rest = ''] = /^([ \t]*)(`{3,}|~{3,})(.*)$/.exec(line) ?? []
  if (indent === undefined || mark === undefined || (mark.startsWith('`') && rest.includes('`'))) return undefined
  return { indent: indent.length, mark, language: rest.trim() }
}

/** Returns true if the line closes the fence. */
export function closesFence(line: string, { mark }: Fence): boolean {
  const closing = line.trim()
  return closing.length >= mark.length && closing === mark.charAt(0).repeat(closing.length)
}

/** Removes the indentation of the fence from a line of code. */
export const withoutIndent = (line: string, { indent }: Fence): string =>
  line.slice(Math.min(indent, /^[ \t]*/.exec(line)?.[0].length ?? 0))

/** Returns the fenced code blocks of a text, unchanged. Omits an unclosed block, because it may be truncated. */
export function codeBlocksIn(text: string): string[] {
  const blocks: string[] = []
  let open: { fence: Fence; code: string } | undefined
  for (const line of text.split(/(?<=\n)/)) {
    const bare = line.replace(/\r?\n$/, '')
    if (open === undefined) {
      const fence = findFence(bare)
      if (fence !== undefined) open = { fence, code: '' }
    } else if (closesFence(bare, open.fence)) {
      blocks.push(open.code)
      open = undefined
    } else open.code += withoutIndent(line, open.fence)
  }
  return blocks
}
