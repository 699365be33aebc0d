/** The configuration of semantic search, in addition to search by words. */
export type RetrievalConfig = {
  embedding?: EmbeddingConfig | undefined
  /** `<provider>/<model>` */
  rerank?: { model: string } | undefined
}

export type EmbeddingConfig = {
  /** `<provider>/<model>` */
  model: string
  /** The requested length of a vector; undefined: the model's default. */
  dimensions?: number | undefined
  /** Passages per call. */
  batch: number
  /** The timeout for the vector of a query; undefined: QUERY_VECTOR_MS.default. */
  queryTimeoutMs?: number | undefined
}
