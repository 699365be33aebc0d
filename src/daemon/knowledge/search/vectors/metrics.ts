import { Counter, Gauge, type Registry } from 'prom-client'

/** `passages` is background work: the embedding of passages. `query` and `rerank` are part of a search. */
export type SemanticWork = 'passages' | 'query' | 'rerank'

export type SemanticMetrics = {
  /** Counts a successful call, with the tokens that the provider reports. */
  called(work: SemanticWork, tokens?: number): void
  failed(work: SemanticWork): void
  embedded(passages: number): void
  refused(): void
}

/** Creates the metrics of embedding and reranking. `countPending` runs when the metrics are read. */
export function createSemanticMetrics(
  registers: Registry[],
  { countPending }: { countPending: () => Promise<number> },
): SemanticMetrics {
  const calls = new Counter({
    name: 'aigw_semantic_calls_total',
    help: 'Calls to the embedding model and to the reranker, by purpose and outcome.',
    labelNames: ['work', 'outcome'],
    registers,
  })
  const tokens = new Counter({
    name: 'aigw_semantic_tokens_total',
    help: 'Tokens reported by the embedding model, by purpose.',
    labelNames: ['work'],
    registers,
  })
  const passages = new Counter({
    name: 'aigw_embedded_passages_total',
    help: 'Passages that were embedded.',
    registers,
  })
  const refusals = new Counter({
    name: 'aigw_refused_passages_total',
    help: 'Passages that the embedding model rejects; only full-text search finds them.',
    registers,
  })
  new Gauge({
    name: 'aigw_documents_to_embed',
    help: 'Documents that are not embedded yet.',
    registers,
    async collect() {
      this.set(await countPending())
    },
  })
  return {
    called(work, count = 0) {
      calls.inc({ work, outcome: 'answered' })
      tokens.inc({ work }, count)
    },
    failed: (work) => calls.inc({ work, outcome: 'failed' }),
    embedded: (count) => passages.inc(count),
    refused: () => refusals.inc(),
  }
}
