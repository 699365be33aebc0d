import { type ChatPart, ProviderError } from '../../models/provider.ts'

/**
 * Appends parts to `held` until the answer is complete or `held` exceeds `limitBytes`. If the last part in `held` is
 * not `end`, the answer is too long to buffer and must be sent before it is complete.
 * @throws ProviderError if the answer breaks off earlier; `held` then contains the parts that arrived before the
 * failure
 */
export async function readAhead(
  held: ChatPart[],
  batches: AsyncIterator<readonly ChatPart[]>,
  limitBytes: number,
): Promise<void> {
  for (let heldBytes = bytesOf(held); heldBytes <= limitBytes; ) {
    const step = await batches.next()
    if (step.done) throw new ProviderError('connection_error', 'The stream just ended.', { outcome: 'truncated' })
    for (const part of step.value) held.push(part)
    if (held.at(-1)?.type === 'end') break
    heldBytes += bytesOf(step.value)
  }
}

/** Estimates the memory of these parts: texts, signatures and logprobs, plus a fixed size per part. */
function bytesOf(parts: readonly ChatPart[]): number {
  let bytes = 0
  for (const part of parts) {
    bytes += PART_BYTES
    if (part.type === 'tool_call') bytes += Buffer.byteLength(part.arguments)
    else if (part.type === 'choice') bytes += bytesOf(part.parts)
    else if (part.type === 'audio') bytes += part.data?.length ?? 0
    else if ('text' in part) bytes += Buffer.byteLength(part.text)
    if (part.type === 'text' && part.logprobs !== undefined) bytes += JSON.stringify(part.logprobs).length
    else if (part.type === 'reasoning') bytes += (part.signature?.length ?? 0) + (part.data?.length ?? 0)
  }
  return bytes
}

const PART_BYTES = 64
