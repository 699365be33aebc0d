// The knowledge module: indexes, document ingestion, and the search that grounds chats.
import { join } from 'node:path'
import type { Registry } from 'prom-client'
import type { ProviderRegistry } from '../models/registry.ts'
import type { Route } from '../platform/http/route.ts'
import type { Job } from '../platform/jobs/schedule.ts'
import type { Log } from '../platform/log.ts'
import type { ChangeDeps } from '../records/audit/change.ts'
import type { Ledger } from '../records/ledger/ledger.ts'
import type { Guards } from '../safety/guards/guards.ts'
import type { PolicyCatalogue } from '../safety/policies/policies.ts'
import { createMerger } from './indexes/merger.ts'
import { purgeKnowledge } from './indexes/purge.ts'
import { reindexDocuments } from './indexes/reindex.ts'
import { createExtractor, type ExtractorDeps } from './ingest/extract/pool.ts'
import { createTextReader, type ReadText } from './ingest/read-text.ts'
import { knowledgeRoutes } from './routes.ts'
import type { Search } from './search/search.ts'
import type { RetrievalConfig } from './search/vectors/config.ts'
import { openRetrieval } from './search/vectors/retrieval.ts'

/** The program that reads files: its path, and whether its process has low priority. */
export type Extraction = Pick<ExtractorDeps, 'program' | 'lowPriority'>

export type KnowledgeRoom = {
  search: Search
  readText: ReadText
  routes: Route[]
  jobs: Job[]
  close(): Promise<void>
}

/**
 * Opens the module. Before the first run, indexes the documents that an older version stored without an inverted index.
 */
export async function openKnowledge(
  config: {
    knowledge?: RetrievalConfig | undefined
    dataDir: string
    /**
     * The time (milliseconds since 1970) since which no other daemon has used the store. Undefined if another daemon
     * might use the store.
     */
    aloneSince: number | undefined
    extraction: Extraction
    /** The program of the ranking thread. By default, the built one. */
    rankingProgram?: URL | undefined
  },
  deps: {
    access: ChangeDeps
    providers: ProviderRegistry
    guards: Guards
    policies: PolicyCatalogue
    ledger: Ledger
    metrics: Registry
    log: Log
  },
): Promise<KnowledgeRoom> {
  const { access, providers, guards, policies, ledger, metrics, log } = deps
  const { db, clock } = access
  await reindexDocuments(db, { clock, log })
  const { search, embeddingOf, forbiddenFor, ...retrieval } = await openRetrieval(config.knowledge ?? {}, {
    db,
    providers,
    policies,
    clock,
    log,
    metrics,
    rankingProgram: config.rankingProgram,
  })
  const extractor = createExtractor({ clock, log, ...config.extraction })
  const merger = createMerger({ db, clock, log })
  const uploadsDir = join(config.dataDir, 'uploads')
  const purge = () => purgeKnowledge({ db, clock, uploadsDir, aloneSince: config.aloneSince })
  const documents = {
    ...access,
    guards,
    policies,
    ledger,
    log,
    search,
    embeddingOf,
    forbiddenFor,
    extractor,
    merger,
    uploadsDir,
  }
  return {
    search,
    readText: createTextReader(extractor.text),
    routes: knowledgeRoutes(documents),
    jobs: [{ name: 'purge-knowledge', cron: '* * * * *', run: purge }],
    async close() {
      await merger.close()
      await extractor.close()
      await retrieval.close()
    },
  }
}
