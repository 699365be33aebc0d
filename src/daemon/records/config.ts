// Configuration of signed evidence.
import { EVIDENCE_RETENTION_DAYS } from '../../shared/spec-limits.ts'
import type { WitnessConfig } from './evidence/witnesses.ts'

/** Settings of signed evidence (docs/evidence.md). */
export type EvidenceConfig = {
  /**
   * The name of new signing keys. If undefined, new keys get the name of the last key, or a random name if there is no
   * key.
   */
  name: string | undefined
  /** Whether receipts are served. Receipts are stored even if this option is off. */
  receipts: boolean
  /** The age in days at which the content of request entries is expunged. 0 means never. */
  retentionDays: number
  /**
   * Additional destinations of checkpoints: the absolute path of a file, to which notes are appended, and a URL, to
   * which notes are sent by POST.
   */
  checkpointFile: string | undefined
  checkpointUrl: string | undefined
  /** The witnesses that cosign checkpoints. */
  witnesses: readonly WitnessConfig[]
  /** Whether anyone may read the checkpoints and tiles of every log. */
  publishTiles: boolean
}

export const DEFAULT_EVIDENCE: EvidenceConfig = {
  name: undefined,
  receipts: true,
  retentionDays: EVIDENCE_RETENTION_DAYS.default,
  checkpointFile: undefined,
  checkpointUrl: undefined,
  witnesses: [],
  publishTiles: false,
}
