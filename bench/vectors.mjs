// Measures vector search among 100,000 vectors on SQLite, with and without sqlite-vec.
// Run: npm run bench -- vectors
import path from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { pathToFileURL } from 'node:url'
import { buildProject, root } from './build.mjs'
import { describeMachine, processMemoryMib } from './machine.mjs'
import { withSession } from './session.mjs'
import { figure, machineLine, table } from './tables.mjs'

const FULL = { passages: 100_000, dimensions: [384, 1_024], queries: 60 }
const QUICK = { passages: 20_000, dimensions: [384], queries: 30 }
const BATCH = 500
const BEST = 10
const INDEX = { tenantId: 'bench', indexId: 'bench' }
const NOW = '2026-01-01T00:00:00.000Z'

const built = (file) => import(pathToFileURL(path.join(root, 'dist', file)).href)

/** Returns a generator of random numbers from 0 to 1. The same seed gives the same sequence. */
function createRandom(seed) {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/**
 * Returns a vector near one of 500 centres. Each centre represents a topic. The same `at` always gives the same vector.
 */
function vectorAt(at, dimensions) {
  const topic = createRandom(1_000_000 + (at % 500))
  const own = createRandom(at)
  return Array.from({ length: dimensions }, () => topic() - 0.5 + (own() - 0.5))
}

export async function benchVectors({ quick = false, dataDir, noBuild }) {
  const plan = quick ? QUICK : FULL
  if (!noBuild) buildProject()
  const machine = describeMachine(dataDir)
  const figures = []
  for (const dimensions of plan.dimensions) {
    await withSession({ dataDir }, async ({ dir }) => {
      figures.push(...(await benchDimensions(dir, dimensions, plan)))
    })
  }
  console.log(machineLine({ ...machine, pinned: false }))
  console.log(`${figure(plan.passages)} vectors; the ${BEST} nearest of one index; times in ms\n`)
  const columns = [
    'p50',
    'p95',
    'CPU each',
    'max event loop delay',
    'recall of the 10 nearest',
    'resident MiB',
    'store MiB',
  ]
  console.log(
    table(
      ['method, dimensions', ...columns],
      figures.map(({ by, dimensions, p50, p95, cpuMs, holdMs, recall, residentMib, storeMib }) => [
        `${by}, ${figure(dimensions)}`,
        ...[
          figure(p50, 1),
          figure(p95, 1),
          figure(cpuMs, 1),
          figure(holdMs, 1),
          figure(recall, 3),
          figure(residentMib),
          figure(storeMib),
        ],
      ]),
    ),
  )
  return { machine, figures }
}

async function benchDimensions(dir, dimensions, { passages, queries }) {
  const { openDatabase } = await built('daemon/platform/db/database.js')
  const { migrateDatabase } = await built('daemon/platform/db/migrate.js')
  const { openNearest } = await built('daemon/knowledge/search/vectors/nearest.js')
  const { nearestPlain } = await built('daemon/knowledge/search/vectors/nearest-plain.js')
  const { toUnitVector } = await built('daemon/knowledge/search/vectors/stored-vector.js')
  const dataDir = path.join(dir, String(dimensions))
  const db = await openDatabase({ kind: 'sqlite', dataDir }, { withVectors: true })
  try {
    await migrateDatabase(db)
    const modelId = await fill(db, passages, dimensions)
    const { rows } = await db.executeQuery({
      ...{ sql: 'select page_count * page_size as bytes from pragma_page_count, pragma_page_size', parameters: [] },
      ...{ query: { kind: 'SelectQueryNode' }, queryId: { queryId: 'size' } },
    })
    const queryVectors = Array.from({ length: queries }, (_, at) => {
      const near = vectorAt(at * 37, dimensions)
      const random = createRandom(5_000_000 + at)
      return toUnitVector(near.map((number) => number + (random() - 0.5) * 0.7))
    })
    const expected = nearestOf(queryVectors, passages, dimensions, toUnitVector)
    const { by, findNearest } = await openNearest(db, {
      clock: { monotonic: () => performance.now() },
      log: { info() {}, warn() {} },
    })
    const methods = { [by]: findNearest, plain: (...query) => nearestPlain(db, ...query) }
    const figures = []
    for (const [name, find] of Object.entries(methods)) {
      const measured = await measure(queryVectors, expected, (query) => find({ ...INDEX, modelId }, query, BEST))
      figures.push({ by: name, dimensions, ...measured, storeMib: rows[0].bytes / 1_048_576 })
    }
    return figures
  } finally {
    await db.destroy()
  }
}

/** Inserts the passages of one document, each with its vector. */
async function fill(db, passages, dimensions) {
  const { chooseModel } = await built('daemon/knowledge/search/vectors/models.js')
  const { insertVectors } = await built('daemon/knowledge/search/vectors/vector-store.js')
  const { insertIndex } = await built('daemon/knowledge/indexes/store.js')
  const { insertRows } = await built('daemon/platform/db/insert-rows.js')
  const { toColumns, toUnitVector } = await built('daemon/knowledge/search/vectors/stored-vector.js')
  const { tenantId, indexId } = INDEX
  const times = { created_at: NOW, updated_at: NOW }
  await db
    .insertInto('tenants')
    .values({ id: tenantId, name: 'bench', status: 'Active', search_text: '', ...times })
    .execute()
  await insertIndex(db, { id: indexId, tenant_id: tenantId, name: 'bench', description: '', created_by: '', ...times })
  const document = { id: 'all', tenant_id: tenantId, index_id: indexId, source: 'all', title: '', content_hash: '' }
  await insertRows(db, 'documents', [
    {
      ...document,
      passage_count: passages,
      state: 'published',
      created_at: NOW,
      first_passage_id: 1,
      in_shared_segment: 0,
    },
  ])
  const { id } = await chooseModel(db, { model: 'bench/model', dimensions, batch: BATCH })
  for (let first = 0; first < passages; first += BATCH) {
    const ats = Array.from({ length: Math.min(BATCH, passages - first) }, (_, at) => first + at)
    const rows = ats.map((at) => ({
      ...{ id: at + 1, tenant_id: tenantId, index_id: indexId, document_id: 'all', position: at },
      ...{ headings: '', body: `passage ${at}`, page: null },
    }))
    const vectors = ats.map((at) => ({
      passageId: at + 1,
      ...toColumns(toUnitVector(vectorAt(at, dimensions)), 'sqlite'),
    }))
    await db.transaction().execute(async (tx) => {
      await insertRows(tx, 'passages', rows)
      await insertVectors(tx, INDEX, id, vectors)
    })
  }
  return id
}

/** Returns the ids of the vectors that are nearest to each query. Compares each query with every vector. */
function nearestOf(queryVectors, passages, dimensions, toUnitVector) {
  const best = queryVectors.map(() => [])
  for (let at = 0; at < passages; at++) {
    const vector = toUnitVector(vectorAt(at, dimensions))
    for (const [query, numbers] of queryVectors.entries()) {
      let cosine = 0
      for (let i = 0; i < dimensions; i++) cosine += vector[i] * numbers[i]
      const found = best[query]
      if (found.length === BEST && cosine <= found.at(-1).cosine) continue
      found.push({ id: at + 1, cosine })
      found.sort((one, other) => other.cosine - one.cosine)
      found.length = Math.min(found.length, BEST)
    }
  }
  return best.map((found) => new Set(found.map(({ id }) => id)))
}

async function measure(queryVectors, expected, find) {
  // Warm-up: the first queries read the file from the disk. In a running daemon, the file is already in memory.
  for (const query of queryVectors.slice(0, 5)) await find(query)
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  const times = []
  let hits = 0
  const before = process.cpuUsage()
  for (const [at, query] of queryVectors.entries()) {
    const startedAt = performance.now()
    const found = await find(query)
    times.push(performance.now() - startedAt)
    hits += found.filter(({ passageId }) => expected[at].has(passageId)).length
  }
  const { user, system } = process.cpuUsage(before)
  delay.disable()
  times.sort((one, other) => one - other)
  return {
    p50: times[times.length >> 1],
    p95: times[Math.floor(times.length * 0.95)],
    cpuMs: (user + system) / 1000 / queryVectors.length,
    holdMs: delay.max / 1e6,
    recall: hits / (queryVectors.length * BEST),
    residentMib: processMemoryMib(process.pid).now,
  }
}
