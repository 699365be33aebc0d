import fc from 'fast-check'
import type { ChatPart } from '../../../../../src/daemon/models/provider.ts'
import type { OutputGuard } from '../../../../../src/daemon/safety/guards/stream/output-guard.ts'

/** Findings of the sample detectors, near misses, and text in between. */
export const sampleText: fc.Arbitrary<string> = fc
  .array(
    fc.constantFrom(
      ...['1234', '12', '123456789', 'jo', '@', 'x', 'key: ', 'ABC', 'ABCDEFG', '<<', '>>', '<', 'no', ' ', '.', '\n'],
      ...['é', '𝒳', '"', '\\', '{', 'jo@x', 'key ABC'],
    ),
    { maxLength: 30 },
  )
  .map((pieces) => pieces.join(''))

/** A text with its chunk boundaries. */
export function cutAnywhere(text: string, cuts: readonly number[]): string[] {
  const places = [...new Set(cuts.map((cut) => cut % (text.length + 1)))].sort((a, b) => a - b)
  return [0, ...places].map((from, at) => text.slice(from, places[at]))
}

export const END: ChatPart = { type: 'end', outcome: 'complete', nativeFinishReason: 'stop', usage: undefined }

/** The complete content of each channel: `text`, `reasoning` and `call <index>`. */
export function saidBy(parts: readonly ChatPart[]): Map<string, string> {
  const said = new Map<string, string>()
  for (const part of parts) {
    if (part.type !== 'text' && part.type !== 'reasoning' && part.type !== 'tool_call') continue
    const channel = part.type === 'tool_call' ? `call ${part.index}` : part.type
    said.set(channel, (said.get(channel) ?? '') + (part.type === 'tool_call' ? part.arguments : part.text))
  }
  return said
}

/** Passes the batches one by one; returns the complete output, and the output after each batch. */
export function runGuard(guard: OutputGuard, batches: readonly (readonly ChatPart[])[]) {
  const out: ChatPart[] = []
  const moments: Map<string, string>[] = []
  for (const batch of batches) {
    out.push(...guard.pass(batch))
    moments.push(saidBy(out))
  }
  return { out, moments }
}
