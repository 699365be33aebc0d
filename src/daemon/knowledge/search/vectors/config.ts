/** The configuration of semantic search, which complements the keyword search. */
export type RetrievalConfig = {
  embedding?: EmbeddingConfig | undefined
  /** `<provider>/<model>` */
  rerank?: { model: string } | undefined
}

export type EmbeddingConfig = {
  /** `<provider>/<model>` */
  model: string
  /** The vector length to request. If not set, the model uses its own default. */
  dimensions?: number | undefined
  /** Passages per call. */
  batch: number
  /** The timeout for the vector of a query. Defaults to QUERY_VECTOR_MS.default. */
  queryTimeoutMs?: number | undefined
}
