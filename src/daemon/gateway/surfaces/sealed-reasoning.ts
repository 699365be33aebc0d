// Encodes reasoning of any provider as one text, for APIs whose reasoning has a single field for signatures.
import { z } from 'zod'
import type { Reasoning } from '../../models/conversation.ts'

/** The prefix of the gateway's own texts. Its dot distinguishes them from the base64 of providers. */
const MARK = 'aigw.'
const Sealed = z.object({ origin: z.string(), signature: z.string().optional(), data: z.string().optional() })

/** Returns MARK followed by the encoded origin, signature and sealed data. */
export const sealReasoning = ({ origin, signature, data }: Omit<Reasoning, 'text'>): string =>
  MARK + Buffer.from(JSON.stringify({ origin, signature, data })).toString('base64url')

/** Whether the gateway created this text. */
export const isSealedHere = (text: string): boolean => text.startsWith(MARK)

/** Decodes the output of `sealReasoning`. Returns undefined for an invalid text. */
export function unsealReasoning(text: string): z.infer<typeof Sealed> | undefined {
  try {
    return Sealed.safeParse(JSON.parse(Buffer.from(text.slice(MARK.length), 'base64url').toString())).data
  } catch {
    return undefined
  }
}
