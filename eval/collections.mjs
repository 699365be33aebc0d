// Reads collections in BEIR format (corpus.jsonl, queries.jsonl, qrels.tsv). Also reads documents with questions and
// the character ranges that answer them. Also computes the measures.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'

const readLines = (file) =>
  readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
const readJsonLines = (file) => readLines(file).map((line) => JSON.parse(line))

/** Names of the collections with relevance judgements. */
export function collectionNames(dir) {
  const retrieval = path.join(dir, 'retrieval')
  return readdirSync(retrieval)
    .filter((name) => existsSync(path.join(retrieval, name, 'qrels.tsv')))
    .sort()
}

/** Returns `{ documents: [{ id, title, text }], queries: [{ text, relevant: Map(document id → grade) }] }`. */
export function readCollection(dir, name) {
  const at = (file) => path.join(dir, 'retrieval', name, file)
  const relevantTo = new Map()
  for (const line of readLines(at('qrels.tsv')).slice(1)) {
    const [query, document, grade] = line.split('\t')
    if (Number(grade) <= 0) continue
    relevantTo.set(query, (relevantTo.get(query) ?? new Map()).set(document, Number(grade)))
  }
  return {
    documents: readJsonLines(at('corpus.jsonl')).map(({ _id, title, text }) => ({ id: _id, title: title ?? '', text })),
    queries: readJsonLines(at('queries.jsonl'))
      .filter(({ _id }) => relevantTo.has(_id))
      .map(({ _id, text }) => ({ text, relevant: relevantTo.get(_id) })),
  }
}

/**
 * Returns `{ documents: [{ id, text }], questions: [{ text, document, ranges: [{ start, end }] }] }`. Returns undefined
 * if the collection is missing.
 */
export function readAnsweredDocuments(dir) {
  const at = (file) => path.join(dir, 'retrieval', 'chunking-eval', file)
  if (!existsSync(at('corpus.jsonl'))) return undefined
  const documents = readJsonLines(at('corpus.jsonl')).map(({ _id, text }) => ({ id: _id, text }))
  const textOf = new Map(documents.map(({ id, text }) => [id, text]))
  const questions = readJsonLines(at('queries.jsonl')).map(({ text, doc, references }) => ({
    text,
    document: doc,
    ranges: references.flatMap(({ content }) => {
      // Searches for the text. The collection's offsets cannot be used, because they count characters differently.
      const start = textOf.get(doc)?.indexOf(content) ?? -1
      return start < 0 ? [] : [{ start, end: start + content.length }]
    }),
  }))
  return { documents, questions: questions.filter(({ ranges }) => ranges.length > 0) }
}

export function ndcgAt10(ranked, relevant) {
  const gain = (grade, at) => grade / Math.log2(at + 2)
  const found = ranked.slice(0, 10).reduce((sum, id, at) => sum + gain(relevant.get(id) ?? 0, at), 0)
  const best = [...relevant.values()].sort((one, other) => other - one).slice(0, 10)
  return found / best.reduce((sum, grade, at) => sum + gain(grade, at), 0)
}

export function recallAt100(ranked, relevant) {
  return ranked.slice(0, 100).filter((id) => relevant.has(id)).length / relevant.size
}

export const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length

export function percentile(values, share) {
  const sorted = [...values].sort((one, other) => one - other)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]
}
