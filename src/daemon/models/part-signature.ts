// Signatures of parts, as Gemini models create them.
import type { ChatPart } from './provider.ts'

/** Marks Google's own reasoning and options. They are sent only to Google. */
export const ORIGIN = 'google'

/** The type of a native part with inline data that is not an image. */
export const INLINE_DATA = 'inline_data'

/**
 * Google signs parts of an answer instead of reasoning steps, and requires each signature on the same part again. The
 * signature of a call or a text is therefore sent to the caller as encrypted reasoning. `data` begins with the id of
 * the signed call. For the signature of a text, this id is empty.
 */
export const signatureOf = (callId: string, signature: string): Extract<ChatPart, { type: 'reasoning' }> => ({
  type: 'reasoning',
  text: '',
  origin: ORIGIN,
  data: `${callId}:${signature}`,
  isSignatureOfPart: true,
})

/**
 * Parses the output of `signatureOf`. The last colon is the separator, because a signature is base64 and an id may
 * contain colons.
 */
export function toSignature(data: string): { callId: string; signature: string } {
  const colon = data.lastIndexOf(':')
  return { callId: data.slice(0, Math.max(0, colon)), signature: data.slice(colon + 1) }
}

/**
 * Creates an id for a call that Google sent without an id: `call_<n>`, where `n` counts the calls of the answer. The
 * response id is appended to make the id unique in a conversation, unless it contains characters that other providers
 * reject.
 */
export const synthesisedId = (index: number, responseId: unknown): string =>
  typeof responseId === 'string' && /^[\w-]{1,30}$/.test(responseId) ? `call_${index}_${responseId}` : `call_${index}`

/** Whether we generated this id. Generated ids must not be sent to Google. */
export const isSynthesised = (id: string): boolean => /^call_\d+(_|$)/.test(id)
