// Measures knowledge search on development collections. It indexes documents in the same way as a training, and runs
// queries in the same way as the search.
// Run: npm run eval -- retrieval
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { inspect } from 'node:util'
import { insertIndex } from '../dist/daemon/knowledge/indexes/store.js'
import { chunkText } from '../dist/daemon/knowledge/ingest/chunking.js'
import { prepareDocument } from '../dist/daemon/knowledge/ingest/prepared-document.js'
import { replaceDocument } from '../dist/daemon/knowledge/ingest/replacement.js'
import { queryOf } from '../dist/daemon/knowledge/search/query.js'
import { rankPassages } from '../dist/daemon/knowledge/search/search.js'
import { openRetrieval } from '../dist/daemon/knowledge/search/vectors/retrieval.js'
import { createProviderRegistry } from '../dist/daemon/models/registry.js'
import { openDatabase } from '../dist/daemon/platform/db/database.js'
import { migrateDatabase } from '../dist/daemon/platform/db/migrate.js'
import { createMetrics } from '../dist/daemon/platform/metrics/registry.js'
import { systemClock } from '../dist/shared/time.js'
import {
  collectionNames,
  mean,
  ndcgAt10,
  percentile,
  readAnsweredDocuments,
  readCollection,
  recallAt100,
} from './collections.mjs'

/** Published or earlier figures for comparison. `fts5`: SQLite FTS5 over whole documents, with English stemming. */
const REFERENCE = {
  scifact: { fts5: 0.687, published: '0.665–0.679' },
  cranfield: { fts5: 0.508 },
  cisi: { fts5: 0.318 },
  med: { fts5: 0.701 },
  'covid-faq': { fts5: 0.57 },
  'covidqa-long': { fts5: 0.694 },
  'xquad-en': { fts5: 0.966 },
  'xquad-de': { fts5: 0.925 },
  'xquad-es': { fts5: 0.953 },
  'xquad-ro': { fts5: 0.927 },
  'xquad-ru': { fts5: 0.873 },
  'xquad-el': { fts5: 0.909 },
  'xquad-vi': { fts5: 0.949 },
  'xquad-zh': { fts5: 0.881 },
  'xquad-th': { fts5: 0.943 },
}

const TENANT = 'eval'
const NOW = '2026-01-01T00:00:00.000Z'
/**
 * Passages per query. Each document is ranked by its best passage, so the search must return more passages than
 * documents.
 */
const PASSAGES = 400
/**
 * How many top-ranked passages are compared with the ranges that answer a question. The figures are computed once for
 * each number in this list.
 */
const PASSAGES_READ = [1, 5]

/** Prints the tables and returns the figures of each collection, by name. */
export async function evaluateRetrieval({ dir, sets, steps, embeddings, postgres, print }) {
  const figures = {}
  const names = collectionNames(dir).filter((name) => sets.length === 0 || sets.includes(name))
  print(row(['collection', 'nDCG@10', 'recall@100', 'p50 ms', 'p95 ms', 'chunks/s', 'FTS5', 'published BM25']))
  await withSearch(postgres, embeddings, async (db, retrieval) => {
    for (const name of names) {
      const { fts5, published } = REFERENCE[name] ?? {}
      const found = await evaluateCollection(db, retrieval, name, readCollection(dir, name), steps)
      figures[name] = found
      const own = [found.ndcg10, found.recall100].map((figure) => figure.toFixed(3))
      const times = [found.p50Ms, found.p95Ms].map((ms) => ms.toFixed(1))
      print(row([name, ...own, ...times, found.chunksPerSecond.toFixed(0), fts5?.toFixed(3) ?? '', published ?? '']))
      for (const [step, ndcg10] of Object.entries(found.steps ?? {})) print(row([`  ${step}`, ndcg10.toFixed(3)]))
    }
    const answered = sets.length === 0 || sets.includes('chunking-eval') ? readAnsweredDocuments(dir) : undefined
    if (answered) {
      figures['chunking-eval'] = await evaluateChunks(db, retrieval, answered)
      print(`\n${row(['chunking-eval', 'token recall', 'IoU', 'precision'])}`)
      for (const [best, measures] of Object.entries(figures['chunking-eval'])) {
        print(row([`  best ${best}`, ...Object.values(measures).map((figure) => figure.toFixed(3))]))
      }
      print('  for comparison: 1,200-character chunks and a large dense model: token recall 0.809, IoU 0.177')
    }
  })
  return figures
}

const row = ([name, ...cells]) => `${name.padEnd(20)}${cells.map((cell) => cell.padStart(12)).join('')}`

/** Opens a store, and configures its search like a daemon that uses the given embeddings. */
async function withSearch(postgres, embeddings, use) {
  await withStore(postgres, async (db) => {
    const endpoint = embeddings && { kind: 'openai', baseUrl: embeddings.url, apiKey: embeddings.key, headers: {} }
    const providers = createProviderRegistry(endpoint ? [{ name: 'eval', ...endpoint }] : [], {
      clock: systemClock,
      builtIn: [],
    })
    const fail = (facts, message) => process.stderr.write(`${message}: ${inspect(facts)}\n`)
    const retrieval = await openRetrieval(
      embeddings ? { embedding: { model: `eval/${embeddings.model}`, batch: 64 } } : {},
      { db, providers, clock: systemClock, log: { info() {}, warn: fail, error: fail }, metrics: createMetrics() },
    )
    try {
      await use(db, retrieval)
    } finally {
      await retrieval.close()
      await providers.close()
    }
  })
}

/** Waits until every passage of an index has a vector. Returns immediately if no embedding model is configured. */
async function embedded({ embeddingOf }, indexId) {
  for (;;) {
    const state = await embeddingOf({ tenantId: TENANT, indexId })
    if (state === null || state.embedded === state.passages) return
    await sleep(100)
  }
}

async function withStore(postgres, use) {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'aigw-eval-'))
  const db = await openDatabase(postgres ? { kind: 'postgres', url: postgres } : { kind: 'sqlite', dataDir }, {
    withVectors: true,
  })
  try {
    await migrateDatabase(db)
    const tenant = { id: TENANT, name: TENANT, status: 'Active', search_text: TENANT, created_at: NOW, updated_at: NOW }
    await db.insertInto('tenants').values(tenant).execute()
    await use(db)
  } finally {
    await db.destroy()
    await rm(dataDir, { recursive: true, force: true })
  }
}

async function makeIndex(db, name) {
  const times = { created_at: NOW, updated_at: NOW }
  await insertIndex(db, { id: name, tenant_id: TENANT, name, description: '', created_by: 'eval', ...times })
}

/** Indexes one document. @returns its number of passages */
async function train(db, indexId, source, text) {
  const { title, passages: lazy } = chunkText(text, 'text')
  const prepared = prepareDocument(title, source, lazy)
  const document = { source, contentHash: '', prepared, now: NOW }
  await replaceDocument(db, { tenantId: TENANT, indexId }, document, {
    signal: new AbortController().signal,
    inPublication: (publish) => db.transaction().execute(publish),
  })
  return prepared.passageCount
}

async function evaluateCollection(db, retrieval, name, { documents, queries }, withSteps) {
  await makeIndex(db, name)
  let chunks = 0
  const started = performance.now()
  for (const { id, title, text } of documents) {
    if (text.trim() !== '') chunks += await train(db, name, id, title === '' ? text : `${title}\n\n${text}`)
  }
  const trainedMs = performance.now() - started
  await embedded(retrieval, name)
  const index = { tenantId: TENANT, indexId: name }
  const times = []
  const rankings = []
  for (const { text } of queries) {
    // The timed search requests 10 results, as clients do. The metrics below need a second search with more results.
    const startedAt = performance.now()
    await retrieval.search(index, text, 10)
    times.push(performance.now() - startedAt)
    rankings.push(documentsOf(await retrieval.search(index, text, PASSAGES)))
  }
  const average = (measure, ranked) => mean(queries.map(({ relevant }, at) => measure(ranked[at], relevant)))
  return {
    ndcg10: average(ndcgAt10, rankings),
    recall100: average(recallAt100, rankings),
    p50Ms: percentile(times, 0.5),
    p95Ms: percentile(times, 0.95),
    chunksPerSecond: (chunks * 1000) / trainedMs,
    ...(withSteps ? { steps: await evaluateSteps(db, name, queries) } : {}),
  }
}

/** Returns the ids of the documents, ordered by the best passage of each document. */
const documentsOf = (matches) => [...new Set(matches.map(({ source }) => source))]

/** Adds the steps of the ranking one by one, and computes nDCG@10 after each step. */
async function evaluateSteps(db, indexId, queries) {
  const steps = {
    'words only': { terms: (term) => term.required },
    '+ further terms': {},
    '+ neighbours': { neighbours: true },
    '+ pairs': { neighbours: true, pairs: true },
    '+ fillers': { neighbours: true, pairs: true, fillers: true },
  }
  const found = {}
  for (const [name, { terms = () => true, neighbours = false, ...read }] of Object.entries(steps)) {
    const figures = []
    for (const { text, relevant } of queries) {
      const query = queryOf(text)
      const used = {
        terms: query.terms.filter(terms),
        pairs: read.pairs ? query.pairs : [],
        fillers: read.fillers ? query.fillers : [],
      }
      const matches = await rankPassages(db, { tenantId: TENANT, indexId }, used, PASSAGES, { neighbours })
      figures.push(ndcgAt10(documentsOf(matches), relevant))
    }
    found[name] = mean(figures)
  }
  return found
}

async function evaluateChunks(db, retrieval, { documents, questions }) {
  const name = 'chunking-eval'
  await makeIndex(db, name)
  for (const { id, text } of documents) await train(db, name, id, text)
  await embedded(retrieval, name)
  const textOf = new Map(documents.map(({ id, text }) => [id, text]))
  const figures = {}
  for (const read of PASSAGES_READ) {
    const measured = []
    for (const question of questions) {
      const matches = await retrieval.search({ tenantId: TENANT, indexId: name }, question.text, read)
      measured.push(measureChunks(matches, question, textOf.get(question.document)))
    }
    figures[read] = Object.fromEntries(
      ['recall', 'iou', 'precision'].map((measure) => [measure, mean(measured.map((figure) => figure[measure]))]),
    )
  }
  return figures
}

function measureChunks(matches, { document, ranges }, whole) {
  const expected = charactersOf(whole.length, ranges)
  const found = new Uint8Array(whole.length)
  let retrieved = 0
  for (const { source, body } of matches) {
    const start = source === document ? whole.indexOf(body) : -1
    // Text that is part of two passages counts twice. Passages of other documents count as irrelevant.
    retrieved += body.length
    if (start >= 0) found.fill(1, start, start + body.length)
  }
  const relevant = expected.reduce((sum, one) => sum + one, 0)
  const hit = expected.reduce((sum, one, at) => sum + (one & found[at]), 0)
  return { recall: hit / relevant, iou: hit / (relevant + retrieved - hit), precision: hit / retrieved }
}

function charactersOf(length, ranges) {
  const characters = new Uint8Array(length)
  for (const { start, end } of ranges) characters.fill(1, start, end)
  return characters
}
