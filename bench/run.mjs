// npm run bench [-- MODE] [options]: the one way into every bench. `--help` lists them.
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { BenchError } from './build.mjs'

const HELP = `usage: npm run bench [-- MODE] [options]

modes
  requests          gateway beside a bare proxy: CPU per request and chunk (default)
  streams           memory of 5,000 open streams, none lost or out of order
  start             time to ready, start of the CLI, idle memory
  ledger            durable commits: rows/s and CPU per row, without evidence and with it
  evidence          CPU that evidence adds to a request; 1,000,000 entries written, exported and checked
  access            lists, searches and creates among 100,000 users and 10,000 groups, on both engines
  webhooks          deliveries beside a bare loop of POSTs, and what bad endpoints cost the others
  ingest            what a chat notices of large and hostile files being indexed, speed and memory of ingest
  vectors           100,000 vectors searched on SQLite, with sqlite-vec and without
  guards            CPU of streams with output guards and without, and what the first token waits for
  builds            this build beside others of it (--against DIR): CPU per request and chunk, in turns
  profile           where the gateway spends its CPU at 50 connections

options
  --quick           fewer and shorter runs: requests takes 1 minute, not 4
  --portkey         requests: beside Portkey's gateway too, which npm installs into a temporary directory
  --rounds N        interleaved rounds or repetitions
  --data-dir DIR    where stores are made; a real disk, or durable commits look free
                    (default: the system's temporary directory)
  --postgres URL    ingest: an empty database to use (default: SQLite)
  --part NAME       ingest: only small (documents of one passage), chat (beside files) or large (1 GB, memory);
                    evidence: only requests or checks
  --against DIR     builds: a checkout that is built; may be given several times
  --out FILE        write every figure as JSON
  --no-build        use dist/ as it is
`

const MODES = {
  requests: async () => (await import('./requests.mjs')).benchRequests,
  streams: async () => (await import('./streams.mjs')).benchStreams,
  start: async () => (await import('./start.mjs')).benchStart,
  ledger: async () => (await import('./ledger.mjs')).benchLedger,
  evidence: async () => (await import('./evidence.mjs')).benchEvidence,
  access: async () => (await import('./access.mjs')).benchAccess,
  webhooks: async () => (await import('./webhooks.mjs')).benchWebhooks,
  ingest: async () => (await import('./ingest.mjs')).benchIngest,
  vectors: async () => (await import('./vectors.mjs')).benchVectors,
  guards: async () => (await import('./guards.mjs')).benchGuards,
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
    if (rounds !== undefined && !(Number.isInteger(rounds) && rounds > 0)) throw new Error('--rounds takes 1, 2, 3 …')
    return { ...values, mode, rounds, dataDir: values['data-dir'], noBuild: values['no-build'] }
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
  // Not just the exit code: an interrupted bench may still have a run under way.
  process.exit(1)
}
