/** The signs that a line begins or ends a block of code with (CommonMark §4.5); undefined for any other line. */
export const fenceOf = (line: string): string | undefined => /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1]

/** Whether the line ends the block that `fence` began. */
export function endsFence(line: string, fence: string): boolean {
  const mark = fenceOf(line)
  return Boolean(mark?.startsWith(fence)) && line.trim() === mark
}
