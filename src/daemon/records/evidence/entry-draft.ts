/** The content of an entry before it is appended to a hash chain. */
export type EntryDraft = {
  id: string
  tenantId: string
  createdAtMs: number
  /** Canonical JSON (RFC 8785). */
  payload: string
}
