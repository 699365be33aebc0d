import { HASH_BYTES } from './merkle.ts'
import { decodeBase64, NoteError } from './note.ts'

/** A proof that an entry is in a log (C2SP tlog-proof). `note` is the signed checkpoint. */
export type TlogProof = { index: number; path: Buffer[]; note: string }

const FIRST_LINE = 'c2sp.org/tlog-proof@v1'
/** The longest inclusion path of RFC 6962. */
const MAX_PATH = 63

/** Returns the text of a proof. */
export const formatTlogProof = ({ index, path, note }: TlogProof): string =>
  [FIRST_LINE, `index ${index}`, ...path.map((hash) => hash.toString('base64')), '', note].join('\n')

/** Parses the text of a proof. Nothing is verified. @throws NoteError */
export function parseTlogProof(text: string): TlogProof {
  const end = text.indexOf('\n\n')
  const [first, indexLine = '', ...path] = end < 0 ? [] : text.slice(0, end).split('\n')
  const [, digits = ''] = /^index (0|[1-9]\d{0,15})$/.exec(indexLine) ?? []
  const index = digits === '' ? Number.NaN : Number(digits)
  if (first !== FIRST_LINE || !Number.isSafeInteger(index)) throw new NoteError('it is not a tlog-proof')
  if (path.length > MAX_PATH) throw new NoteError('its path is too long')
  const hashes = path.map((line) => {
    const hash = decodeBase64(line)
    if (hash?.length !== HASH_BYTES) throw new NoteError('its path has a line that is not a hash')
    return hash
  })
  return { index, path: hashes, note: text.slice(end + 2) }
}
