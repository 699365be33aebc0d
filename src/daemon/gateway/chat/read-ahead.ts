import { type ChatPart, ProviderError } from '../../models/provider.ts'

/**
 * Reads on until the answer has come to its good end, or more than `limitBytes` of it would be held, and adds what comes to
 * `held`. So the caller either holds the end, or knows that the answer must go out before it.
 * @throws ProviderError when the answer breaks before that; `held` has what was said until then.
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

/** What the texts of some parts take, what comes along with them, and a little for each part. */
function bytesOf(parts: readonly ChatPart[]): number {
  let bytes = 0
  for (const part of parts) {
    bytes += PART_BYTES
    if (part.type === 'tool_call') bytes += Buffer.byteLength(part.arguments)
    else if ('text' in part) bytes += Buffer.byteLength(part.text)
    if (part.type === 'text' && part.logprobs !== undefined) bytes += JSON.stringify(part.logprobs).length
    else if (part.type === 'reasoning') bytes += (part.signature?.length ?? 0) + (part.data?.length ?? 0)
  }
  return bytes
}

const PART_BYTES = 64
