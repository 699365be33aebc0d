import { createReadStream } from 'node:fs'

const NEWLINE = 10

/**
 * Yields the bytes of each line of a file. Only one chunk and one line are in memory. Only a newline ends a line. Node's
 * readline would also split at carriage returns, U+2028 and U+2029, but JSON may contain these characters. The newline
 * after the last line is optional.
 */
export async function* linesOf(path: string): AsyncGenerator<Buffer, undefined> {
  let begun: Buffer[] = []
  const chunks: AsyncIterable<Buffer> = createReadStream(path)
  for await (const chunk of chunks) {
    let from = 0
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, from)) {
      const rest = chunk.subarray(from, end)
      yield begun.length === 0 ? rest : Buffer.concat([...begun, rest])
      begun = []
      from = end + 1
    }
    if (from < chunk.length) begun.push(chunk.subarray(from))
  }
  if (begun.length > 0) yield Buffer.concat(begun)
  return undefined
}
