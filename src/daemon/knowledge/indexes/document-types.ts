// The keys of indexes and documents, and the types of documents that are being written.
export type IndexKey = { tenantId: string; indexId: string }
/** A document to store. `contentHash` is the SHA-256 of its text in hex. `now` is ISO 8601. */
export type NewDocument = {
  source: string
  title: string
  contentHash: string
  /** The default policy of the key that trained the document. Absent or null: the default policy of the tenant. */
  policyId?: string | null | undefined
  passageCount: number
  now: string
}
/** One document of an index, published or not. */
export type DocumentKey = IndexKey & { documentId: string }
/** A document that is being written. Its passages have consecutive ids, starting at `firstPassageId`. */
export type Draft = DocumentKey & { firstPassageId: number }
