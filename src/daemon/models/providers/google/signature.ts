import type { ChatPart } from '../../provider.ts'

/** Marks Google's own reasoning, which goes back only to Google. */
export const ORIGIN = 'google'

/**
 * Google signs parts of an answer instead of reasoning steps, and needs each signature back on its part. So a signature
 * of a call or a text is sent as encrypted reasoning that names its part: the id of the call, or nothing for text.
 */
export const signatureOf = (callId: string, signature: string): Extract<ChatPart, { type: 'reasoning' }> => ({
  type: 'reasoning',
  text: '',
  origin: ORIGIN,
  data: `${callId}:${signature}`,
  isSignatureOfPart: true,
})

/**
 * Parses what `signatureOf` wrote. The last colon separates, because a signature is base64 and an id may contain
 * colons.
 */
export function toSignature(data: string): { callId: string; signature: string } {
  const colon = data.lastIndexOf(':')
  return { callId: data.slice(0, Math.max(0, colon)), signature: data.slice(colon + 1) }
}

/**
 * An id for a call that Google sent without one: `call_<n>`, with n counted within the answer. The id of the response
 * makes it unique in a conversation. A response id with characters that other providers reject is left out.
 */
export const synthesisedId = (index: number, responseId: unknown): string =>
  typeof responseId === 'string' && /^[\w-]{1,30}$/.test(responseId) ? `call_${index}_${responseId}` : `call_${index}`

/** Whether an id is ours, so that it must not be sent to Google. */
export const isSynthesised = (id: string): boolean => /^call_\d+(_|$)/.test(id)
