/** What becomes an entry of a hash chain when it is committed. */
export type EntryDraft = {
  id: string
  tenantId: string
  createdAtMs: number
  /** Canonical JSON (RFC 8785). */
  payload: string
}
