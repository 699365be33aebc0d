import { isHash } from './entry.ts'
import { compareKeys, isObject, type PublishedKey, timeOf, windowOf } from './keys.ts'
import { rootOfInclusion } from './merkle.ts'
import { chainOrigin, NoteError, signedNoteOf } from './note.ts'
import { verifyReceipt } from './receipt.ts'
import { parseTlogProof, type TlogProof } from './tlog-proof.ts'
import { cosignedNoteOf, type WitnessPolicy } from './witness-policy.ts'

/** A receipt with a proof that its entry is in a checkpoint of its log. */
export type ReceiptBundle = { receipt: object; tlog_proof: string }

/** Whether a value has the members of a bundle. The members themselves are not checked. */
export const isBundle = (value: unknown): value is ReceiptBundle =>
  isObject(value) && Object.keys(value).length === 2 && isObject(value.receipt) && typeof value.tlog_proof === 'string'

export type BundleOptions = {
  keys: readonly PublishedKey[]
  /** If undefined, no cosignature is required. */
  policy?: WitnessPolicy | undefined
  nowMs: number
}

/** The result of verifying a bundle. `size` is the number of entries that the checkpoint covers. */
export type BundleVerdict = { ok: true; size: number; cosigners: string[] } | { ok: false; problem: string }

/**
 * Verifies a bundle: the receipt, the path of its entry to the root of the checkpoint, the checkpoint's signature and
 * the cosignatures that the policy requires. If the bundle is invalid, returns the first fault. Never throws.
 */
export function verifyBundle({ receipt, tlog_proof }: ReceiptBundle, options: BundleOptions): BundleVerdict {
  const signed = verifyReceipt(receipt, options.keys)
  if (!signed.ok) return signed
  try {
    return { ok: true, ...verifyProof(receipt, parseTlogProof(tlog_proof), options) }
  } catch (error) {
    if (error instanceof NoteError) return { ok: false, problem: `its checkpoint or path is invalid: ${error.message}` }
    throw error
  }
}

/** @throws NoteError */
function verifyProof(receipt: object, { index, path, note }: TlogProof, options: BundleOptions) {
  const entry: unknown = Reflect.get(receipt, 'entry')
  if (!isObject(entry) || !isHash(entry.entry_hash)) throw new NoteError('the receipt has no entry')
  const { keys, policy, nowMs } = options
  const { checkpoint, signedWith } = signedNoteOf(note, keys)
  const cosigners = policy ? cosignedNoteOf(note, { keys, policy, nowMs }).cosigners : []
  const { tenant_id, chain, seq, entry_hash, created_at } = entry
  const isOfLog = signedWith.some(({ name }) => checkpoint.origin === chainOrigin(name, `${tenant_id}`, `${chain}`))
  if (!isOfLog) throw new NoteError('the checkpoint belongs to another log')
  // The checkpoint is younger than the entry, so a key that was retired before the entry cannot have signed it.
  const isInTime = signedWith.some((key) => timeOf(created_at) <= windowOf(key).untilMs)
  if (!isInTime) throw new NoteError('the key of the checkpoint was retired before the entry')
  const signer = keys.find(({ kid }) => kid === Reflect.get(receipt, 'kid'))
  if (signer && signedWith.every((key) => compareKeys(key, signer) < 0))
    throw new NoteError('the key of the checkpoint is older than the key of the entry')
  if (index !== seq) throw new NoteError('the proof is of another entry')
  const root = rootOfInclusion(Buffer.from(entry_hash, 'hex'), index, checkpoint.size, path)
  if (root?.toString('base64') !== checkpoint.root) throw new NoteError('the path does not lead to the root')
  return { size: checkpoint.size, cosigners }
}
