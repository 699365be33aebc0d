// Reasoning of other providers as a thoughtSignature. Google's own signatures are forwarded unchanged.
import { z } from 'zod'
import type { Reasoning } from '../../../models/conversation.ts'

const MARK = 'aigw'
/** The base64 of the mark and the first two characters of the list. Google's signatures begin with other bytes. */
const PREFIX = Buffer.from(`${MARK}[{`).toString('base64')

const MAX_STEPS = 10_000
/** A longer signature is not decoded, because that would occupy the daemon. */
const MAX_CHARS = 8_000_000

const Steps = z
  .array(
    z.object({
      origin: z.string(),
      text: z.string(),
      signature: z.string().optional(),
      data: z.string().optional(),
    }),
  )
  .max(MAX_STEPS)

/** Encodes reasoning steps as base64, because Google's clients decode a signature to bytes. */
export const toThoughtSignature = (steps: readonly Reasoning[]): string =>
  Buffer.from(
    MARK + JSON.stringify(steps.map(({ origin, text, signature, data }) => ({ origin, text, signature, data }))),
  ).toString('base64')

/** Decodes the output of `toThoughtSignature`, also in URL-safe base64. Returns undefined for any other signature. */
export function toReasoning(thoughtSignature: string): Reasoning[] | undefined {
  if (!thoughtSignature.startsWith(PREFIX) || thoughtSignature.length > MAX_CHARS) return undefined
  try {
    const json = Buffer.from(thoughtSignature, 'base64').toString().slice(MARK.length)
    return Steps.safeParse(JSON.parse(json)).data
  } catch {
    return undefined
  }
}
