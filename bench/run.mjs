// Runs one bench: npm run bench [-- MODE] [options]. `--help` lists the modes and options.
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { BenchError } from './build.mjs'

const HELP = `usage: npm run bench [-- MODE] [options]

modes
  requests          CPU per request and chunk, compared with a bare proxy (default)
  streams           memory of 5,000 open streams, lost or reordered chunks
  start             time to ready, start of the CLI, idle memory
  ledger            durable commits: rows/s and CPU per row, with and without evidence
  evidence          CPU that evidence adds to a request; write, export and verify 1,000,000 entries
  access            lists, searches and changes with 100,000 users and 10,000 groups, on both engines
  logs              pages, filters and the tail of a log of 1,000,000 entries
  webhooks          deliveries compared with a bare loop of POSTs, and the effect of bad endpoints on others
  ingest            chat latency while large and hostile files are indexed; speed and memory of indexing
  vectors           search in 100,000 vectors on SQLite, with and without sqlite-vec
  guards            CPU of streams with and without output guards; first text and pieces under each policy
  fresh             CPU per request under each policy, with texts that never repeat
  stalls            how long the most expensive requests and answers block the event loop
  names             latency of one provider while the lookups of another provider hang
  shares            latency of one tenant and of administration while another tenant holds all that it can
  builds            this build compared with other builds (--against DIR): CPU per request and chunk
  profile           CPU of the gateway by module and function, at 50 connections

options
  --quick           fewer and shorter runs: requests takes 1 minute, not 4
  --portkey         requests: also compare with Portkey's gateway, which npm installs into a temporary directory
  --rounds N        number of alternating rounds or repetitions
  --data-dir DIR    directory of the stores; use a real disk, or durable commits look free
                    (default: the system's temporary directory)
  --postgres URL    ingest, logs: an empty database to use (default: SQLite)
  --entries N       logs: number of entries; 10,000,000 need 25 GB and 20 minutes to write
  --store DIR       logs: keep the store in this directory; a later run uses it, or continues an interrupted one
  --part NAME       ingest: only small (documents of one passage), chat (latency) or large (1 GB, memory);
                    evidence: only requests or checks; stalls: only cases whose name contains NAME;
                    guards: only live (streams of prose under each policy)
  --against DIR     builds: a built checkout; may be repeated
  --out FILE        write all figures as JSON
  --no-build        use dist/ as it is
`

const MODES = {
  requests: async () => (await import('./requests.mjs')).benchRequests,
  streams: async () => (await import('./streams.mjs')).benchStreams,
  start: async () => (await import('./start.mjs')).benchStart,
  ledger: async () => (await import('./ledger.mjs')).benchLedger,
  evidence: async () => (await import('./evidence.mjs')).benchEvidence,
  access: async () => (await import('./access.mjs')).benchAccess,
  logs: async () => (await import('./logs.mjs')).benchLogs,
  webhooks: async () => (await import('./webhooks.mjs')).benchWebhooks,
  ingest: async () => (await import('./ingest.mjs')).benchIngest,
  vectors: async () => (await import('./vectors.mjs')).benchVectors,
  guards: async () => (await import('./guards.mjs')).benchGuards,
  fresh: async () => (await import('./fresh.mjs')).benchFresh,
  stalls: async () => (await import('./stalls.mjs')).benchStalls,
  names: async () => (await import('./names.mjs')).benchNames,
  shares: async () => (await import('./shares.mjs')).benchShares,
  builds: async () => (await import('./builds.mjs')).benchBuilds,
  profile: async () => (await import('./profile.mjs')).profileGateway,
}

const OPTIONS = {
  help: { type: 'boolean', short: 'h', default: false },
  quick: { type: 'boolean', default: false },
  portkey: { type: 'boolean', default: false },
  rounds: { type: 'string' },
  'data-dir': { type: 'string' },
  postgres: { type: 'string' },
  part: { type: 'string' },
  entries: { type: 'string' },
  store: { type: 'string' },
  against: { type: 'string', multiple: true },
  out: { type: 'string' },
  'no-build': { type: 'boolean', default: false },
}

function readArguments() {
  try {
    const { values, positionals } = parseArgs({ options: OPTIONS, allowPositionals: true })
    const [mode = 'requests', ...rest] = positionals
    const rounds = values.rounds === undefined ? undefined : Number(values.rounds)
    if (!Object.hasOwn(MODES, mode) || rest.length > 0) throw new Error(`unknown mode ${positionals.join(' ')}`)
    if (rounds !== undefined && !(Number.isInteger(rounds) && rounds > 0))
      throw new Error('--rounds must be a positive integer')
    const entries = values.entries === undefined ? undefined : Number(values.entries)
    if (entries !== undefined && !(Number.isInteger(entries) && entries > 0))
      throw new Error('--entries must be a positive integer')
    return { ...values, mode, rounds, entries, dataDir: values['data-dir'], noBuild: values['no-build'] }
  } catch (error) {
    console.error(`${error.message}\n\n${HELP}`)
    process.exit(2)
  }
}

const options = readArguments()
if (options.help) {
  console.log(HELP)
  process.exit(0)
}
try {
  const bench = await MODES[options.mode]()
  const figures = await bench(options)
  if (options.out) writeFileSync(options.out, `${JSON.stringify({ mode: options.mode, ...figures }, null, 1)}\n`)
} catch (error) {
  console.error(error instanceof BenchError ? `bench: ${error.message}` : error)
  // Exits immediately, because a run of an interrupted bench may still be in progress.
  process.exit(1)
}
