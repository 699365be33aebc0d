/** Returns the fence if the line begins or ends a code block (CommonMark §4.5). Undefined for other lines. */
export const fenceOf = (line: string): string | undefined => /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1]

/** Whether the line ends the code block that `fence` has opened. */
export function endsFence(line: string, fence: string): boolean {
  const mark = fenceOf(line)
  return Boolean(mark?.startsWith(fence)) && line.trim() === mark
}
