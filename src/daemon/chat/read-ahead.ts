import { type ChatPart, ProviderError } from '../providers/provider.ts'

/**
 * Reads on until the answer has come to its good end, or more than `limitBytes` of it would be held; returns all parts so
 * far. So the caller either holds the end, or knows that the answer must go out before it.
 * @throws ProviderError when the answer breaks before that.
 */
export async function readAhead(
  first: readonly ChatPart[],
  batches: AsyncIterator<readonly ChatPart[]>,
  limitBytes: number,
): Promise<readonly ChatPart[]> {
  if (limitBytes === 0 || first.at(-1)?.type === 'end') return first
  const parts = [...first]
  for (let heldBytes = bytesOf(first); heldBytes <= limitBytes; ) {
    const step = await batches.next()
    if (step.done) throw new ProviderError('connection_error', 'The stream just ended.', { outcome: 'truncated' })
    for (const part of step.value) parts.push(part)
    if (parts.at(-1)?.type === 'end') break
    heldBytes += bytesOf(step.value)
  }
  return parts
}

/** What the texts of some parts take, and a little for each part. */
function bytesOf(parts: readonly ChatPart[]): number {
  let bytes = 0
  for (const part of parts) {
    bytes += PART_BYTES
    if (part.type === 'tool_call') bytes += Buffer.byteLength(part.arguments)
    else if (part.type !== 'end') bytes += Buffer.byteLength(part.text)
  }
  return bytes
}

const PART_BYTES = 64
