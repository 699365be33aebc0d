// Recognises the sealed data of reasoning: what providers have signed or encrypted, and guards cannot read.
import { isCipher, isSealedName } from '../../../platform/text/cipher.ts'
import { parseObject } from '../../../platform/text/json.ts'

/** The signature of a call: the id of the call, a colon, and the signature. */
const SIGNED_CALL = /^([\w.:-]{0,256}):([^:]+)$/

/**
 * Whether a text has the form of a signature or of sealed data: base64, also with the id of a call or in a JSON object
 * of ids and base64. Other texts may be readable, so guards inspect them.
 */
export function isSealed(text: string): boolean {
  if (text === '' || isCipher(text)) return true
  if (!text.startsWith('{')) return isCipher(SIGNED_CALL.exec(text)?.[2])
  const members = Object.entries(parseObject(text) ?? { '': text })
  return members.every(
    ([name, value]) => isSealedName(name) && (typeof value === 'number' || isSealedName(value) || isCipher(value)),
  )
}
