// Configuration of signed evidence.
import { EVIDENCE_RETENTION_DAYS } from '../../shared/spec-limits.ts'

/** Settings of signed evidence (docs/evidence.md). */
export type EvidenceConfig = {
  /** The name of new signing keys. Undefined: the name of the last key, or a random one. */
  name: string | undefined
  /** Whether receipts are served. They are stored in any case. */
  receipts: boolean
  /** The content of request entries is expunged after so many days; 0: never. */
  retentionDays: number
  /** Further destinations of checkpoints besides the store: a file (absolute path, appended to) and a URL (POST). */
  checkpointFile: string | undefined
  checkpointUrl: string | undefined
}

export const DEFAULT_EVIDENCE: EvidenceConfig = {
  name: undefined,
  receipts: true,
  retentionDays: EVIDENCE_RETENTION_DAYS.default,
  checkpointFile: undefined,
  checkpointUrl: undefined,
}
