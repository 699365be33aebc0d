/** The configuration of semantic search, which is used in addition to search by words. */
export type RetrievalConfig = {
  embedding?: EmbeddingConfig | undefined
  /** `<provider>/<model>` */
  rerank?: { model: string } | undefined
}

export type EmbeddingConfig = {
  /** `<provider>/<model>` */
  model: string
  /** The requested length of a vector. Defaults to the model's default. */
  dimensions?: number | undefined
  /** Passages per call. */
  batch: number
  /** The timeout for the vector of a query. Defaults to QUERY_VECTOR_MS.default. */
  queryTimeoutMs?: number | undefined
}
