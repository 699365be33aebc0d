// npm run eval -- MODE [options]: the one way into every evaluation. `--help` lists them.
import { spawnSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const HELP = `usage: npm run eval -- MODE [options]

modes
  retrieval         knowledge search on development collections: nDCG@10, recall@100, time per query; chunk quality
  dlp               secrets in development sets: recall and precision for each set, false hits, time
  pii               personal data in development sets: precision, recall, F1 and F2 for each type, false hits, time
  shield            the prompt shield on development sets: recall, false positives, area under the curve, time

options
  --set NAME        only this collection; may be repeated
  --steps           what each step of the ranking adds; pii: every miss and false hit (texts of the sets)
  --embeddings URL  also search by meaning: an OpenAI-compatible address, up to and without /embeddings
  --model NAME      the embedding model there; its key is taken from AIGW_EVAL_API_KEY
  --train           train the shield first, also with each set left out, and write its weights
  --postgres URL    an empty PostgreSQL database to search in (default: SQLite in a temporary directory)
  --out FILE        write every figure as JSON
  --no-build        use dist/ as it is

environment
  AIGW_EVAL_DIR     where the collections are (default: ../shared/eval)
`

const MODES = {
  retrieval: async () => (await import('./retrieval.mjs')).evaluateRetrieval,
  dlp: async () => (await import('./dlp.mjs')).evaluateDlp,
  pii: async () => (await import('./pii.mjs')).evaluatePii,
  shield: async () => (await import('./shield.mjs')).evaluateShield,
}

const OPTIONS = {
  help: { type: 'boolean', short: 'h', default: false },
  set: { type: 'string', multiple: true, default: [] },
  steps: { type: 'boolean', default: false },
  embeddings: { type: 'string' },
  model: { type: 'string', default: 'default' },
  train: { type: 'boolean', default: false },
  postgres: { type: 'string' },
  out: { type: 'string' },
  'no-build': { type: 'boolean', default: false },
}

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))

async function main() {
  const { values, positionals } = parseArgs({ options: OPTIONS, allowPositionals: true })
  const load = MODES[positionals[0]]
  if (values.help || load === undefined || positionals.length > 1) {
    process.stdout.write(HELP)
    return values.help ? 0 : 2
  }
  const dir = process.env.AIGW_EVAL_DIR ?? path.join(root, '..', 'shared', 'eval')
  if (!existsSync(dir)) {
    process.stderr.write(`There are no collections in ${dir}. Set AIGW_EVAL_DIR to the folder that holds them.\n`)
    return 2
  }
  if (!values['no-build']) {
    const { status } = spawnSync('npm', ['run', '--silent', 'build'], { cwd: root, stdio: ['ignore', 2, 2] })
    if (status !== 0) return 1
  }
  const evaluate = await load()
  const figures = await evaluate({
    dir,
    sets: values.set,
    steps: values.steps,
    embeddings: values.embeddings && {
      url: values.embeddings,
      model: values.model,
      key: process.env.AIGW_EVAL_API_KEY,
    },
    train: values.train,
    postgres: values.postgres,
    print: (line) => process.stdout.write(`${line}\n`),
  })
  if (values.out) writeFileSync(values.out, `${JSON.stringify(figures, null, 2)}\n`)
  return 0
}

process.exitCode = await main()
