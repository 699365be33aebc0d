import type { Io } from './context.ts'

/** Waits until `stream` has taken `data`; rejects with EPIPE when its reader is gone. */
export function writeTo(stream: NodeJS.WritableStream, data: string | Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(data, (error) => (error ? reject(error) : resolve()))
  })
}

/** Reads stdin to its end, at most `limit` bytes. Throws a usage error for more. */
export async function readStdin(io: Pick<Io, 'stdin' | 'signal'>, limit: number, what: string): Promise<Buffer> {
  const [{ addAbortSignal, Readable }, { usageError }] = await Promise.all([
    import('node:stream'),
    import('./errors.ts'),
  ])
  const stdin = io.stdin instanceof Readable ? addAbortSignal(io.signal, io.stdin) : io.stdin
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of stdin) {
    const bytes = Buffer.from(chunk)
    size += bytes.length
    if (size > limit) throw usageError(`${what} on stdin is longer than ${limit} bytes`)
    chunks.push(bytes)
  }
  return Buffer.concat(chunks)
}
