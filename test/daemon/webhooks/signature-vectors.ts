import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** One delivery as received, and whether the receiver must accept it. */
export type Vector = {
  id: string
  title: string
  secrets: string[]
  now: number
  tolerance: number
  header: string | null
  body: Buffer
  expect: 'valid' | 'invalid'
  /** The failing check, if the vector names it. */
  reason?: string
  /** Verifiers may differ where the vector says `should`. */
  level: 'must' | 'should'
}

type StoredBody = {
  utf8?: string
  base64?: string
  repeat_base64?: string
  truncate_to?: number
  then_replace_last_byte_with?: string
}

const OWN = join(import.meta.dirname, '../../fixtures/webhooks/signature-vectors.json')
const CORPUS = join(
  process.env.AIGW_EVAL_DIR ?? join(import.meta.dirname, '../../../../shared/eval'),
  'signature-vectors-dev.json',
)

/** Our own vectors, and those of the evaluation if present. */
export function signatureVectors(): Vector[] {
  return [OWN, CORPUS]
    .filter((file) => existsSync(file))
    .flatMap(
      (file) => JSON.parse(readFileSync(file, 'utf8')).vectors as (Omit<Vector, 'body'> & { body: StoredBody })[],
    )
    .map((vector) => ({ ...vector, body: toBytes(vector.body) }))
}

function toBytes({ utf8, base64, repeat_base64, truncate_to, then_replace_last_byte_with }: StoredBody): Buffer {
  if (utf8 !== undefined) return Buffer.from(utf8)
  if (base64 !== undefined) return Buffer.from(base64, 'base64')
  // Repeats the text and cuts the last repetition.
  const bytes = Buffer.alloc(truncate_to ?? 0, Buffer.from(repeat_base64 ?? '', 'base64'))
  if (then_replace_last_byte_with !== undefined) bytes.write(then_replace_last_byte_with, bytes.length - 1)
  return bytes
}
