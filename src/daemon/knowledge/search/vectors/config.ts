/** The configuration of semantic search. Semantic search complements the keyword search. */
export type RetrievalConfig = {
  embedding?: EmbeddingConfig | undefined
  /** `<provider>/<model>` */
  rerank?: { model: string } | undefined
}

export type EmbeddingConfig = {
  /** `<provider>/<model>` */
  model: string
  /** The vector length to request from the model. If this option is not set, the model uses its own default length. */
  dimensions?: number | undefined
  /** Passages per call. */
  batch: number
  /** The timeout for computing the vector of a query. Defaults to QUERY_VECTOR_MS.default. */
  queryTimeoutMs?: number | undefined
}
