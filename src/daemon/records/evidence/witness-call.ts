import { type Dispatcher, request } from 'undici'
import type { Clock } from '../../../shared/time.ts'

/** The timeout of one request to a witness, including its response. */
export const WITNESS_CALL_MS = 10_000
/** The maximum size of a response. A response has a line per key of the witness. */
const RESPONSE_BYTES = 16_384

/** The response of a witness to add-checkpoint (C2SP tlog-witness). */
export type WitnessAnswer =
  | { kind: 'cosigned'; lines: string }
  /** The witness has cosigned a checkpoint of another size. */
  | { kind: 'other-size'; size: number }
  /** The checkpoint contradicts a checkpoint that the witness has cosigned. */
  | { kind: 'contradicted'; status: number }
  /** The witness does not accept the log, its key or the request. A repeated request would be refused too. */
  | { kind: 'refused'; status: number }

export type WitnessRequest = {
  /** The submission prefix of the witness. */
  url: string
  oldSize: number
  path: readonly Buffer[]
  note: string
  signal: AbortSignal
  clock: Clock
  dispatcher?: Dispatcher | undefined
}

/**
 * Sends a checkpoint to a witness. Redirects are not followed.
 * @throws network errors, and Error for a response that is too large, unexpected, or too late
 */
export async function addCheckpoint(options: WitnessRequest): Promise<WitnessAnswer> {
  const { url, oldSize, path, note, clock, dispatcher } = options
  const late = new AbortController()
  const timer = clock.after(WITNESS_CALL_MS, () => late.abort(new Error(`no response within ${WITNESS_CALL_MS} ms`)))
  try {
    const { statusCode, headers, body } = await request(`${url.replace(/\/$/, '')}/add-checkpoint`, {
      method: 'POST',
      headers: { 'content-type': 'text/plain; charset=utf-8' },
      body: [`old ${oldSize}`, ...path.map((hash) => hash.toString('base64')), '', note].join('\n'),
      signal: AbortSignal.any([options.signal, late.signal]),
      ...(dispatcher && { dispatcher }),
    })
    const text = await readBounded(body)
    if (statusCode === 200) return { kind: 'cosigned', lines: text }
    if (statusCode === 409) return toConflict(text, headers['content-type'], oldSize)
    if (statusCode === 422) return { kind: 'contradicted', status: statusCode }
    if (REFUSALS.has(statusCode)) return { kind: 'refused', status: statusCode }
    throw new Error(`the witness responded with status ${statusCode}`)
  } finally {
    timer.cancel()
  }
}

/** 400: invalid request. 403: no known key has signed the checkpoint. 404: unknown log. */
const REFUSALS = new Set([400, 403, 404])

/**
 * The witness has cosigned another size, or another root of the same size. The second case has no size, or the size
 * that was sent.
 */
function toConflict(text: string, contentType: string | string[] | undefined, oldSize: number): WitnessAnswer {
  const size = /^(?:0|[1-9]\d{0,15})\n$/.test(text) ? Number(text) : Number.NaN
  const hasSize = `${contentType}`.startsWith('text/x.tlog.size') && Number.isSafeInteger(size)
  return hasSize && size !== oldSize ? { kind: 'other-size', size } : { kind: 'contradicted', status: 409 }
}

async function readBounded(body: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body) {
    bytes += chunk.length
    if (bytes > RESPONSE_BYTES) throw new Error(`the response has more than ${RESPONSE_BYTES} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}
