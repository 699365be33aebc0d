import type { ChatPart } from '../../provider.ts'

/** Marks the reasoning that is Google's own and goes back to no one else. */
export const ORIGIN = 'google'

/**
 * Google signs parts of an answer, not steps of reasoning, and wants each signature back on its part. So a signature of a
 * call or of text travels as encrypted reasoning that names its part: the id of the call, or nothing for text.
 */
export const signatureOf = (callId: string, signature: string): Extract<ChatPart, { type: 'reasoning' }> => ({
  type: 'reasoning',
  text: '',
  origin: ORIGIN,
  data: `${callId}:${signature}`,
})

/** What `signatureOf` wrote. The last colon divides, for a signature is base64 and an id may be anything. */
export function toSignature(data: string): { callId: string; signature: string } {
  const colon = data.lastIndexOf(':')
  return { callId: data.slice(0, Math.max(0, colon)), signature: data.slice(colon + 1) }
}

/**
 * The id of a call that Google gave none: `call_<n>`, n counted in its answer. The id of the response makes it unique in a
 * conversation, too; one that others would refuse as part of an id is left out.
 */
export const synthesisedId = (index: number, responseId: unknown): string =>
  typeof responseId === 'string' && /^[\w-]{1,30}$/.test(responseId) ? `call_${index}_${responseId}` : `call_${index}`

/** Says that an id is ours, so that Google has never heard of it. */
export const isSynthesised = (id: string): boolean => /^call_\d+(_|$)/.test(id)
