/** What knowledge bases are searched with beside their words, as it is configured. */
export type RetrievalConfig = {
  embedding?: EmbeddingConfig | undefined
  /** `<provider>/<model>` */
  rerank?: { model: string } | undefined
}

export type EmbeddingConfig = {
  /** `<provider>/<model>` */
  model: string
  /** How many numbers a vector shall have; undefined: as many as the model gives. */
  dimensions?: number | undefined
  /** Passages of one call. */
  batch: number
  /** How long a search waits for the vector of its query; undefined: QUERY_VECTOR_MS.default. */
  queryTimeoutMs?: number | undefined
}
