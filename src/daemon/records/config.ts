// Configuration of the evidence that the daemon leaves.
import { EVIDENCE_RETENTION_DAYS } from '../../shared/spec-limits.ts'

/** How the daemon proves what it did (docs/evidence.md). */
export type EvidenceConfig = {
  /** Of keys that sign from now on; undefined: as the last one, or a random one. */
  name: string | undefined
  /** Whether receipts are handed out. They are kept in any case. */
  receipts: boolean
  /** After so many days the content of requests' entries is expunged; 0: never. */
  retentionDays: number
  /** Second places of checkpoints: a file that is appended to (absolute), and an address they are posted to. */
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
