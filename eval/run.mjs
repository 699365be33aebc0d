// Runs one evaluation: npm run eval -- MODE [options]. `--help` lists the modes and options.
import { spawnSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const HELP = `usage: npm run eval -- MODE [options]

modes
  retrieval         knowledge search: nDCG@10, recall@100, time per query, chunk quality
  dlp               secrets: recall and precision per set, false positives, time
  pii               personal data: precision, recall, F1 and F2 per type, false positives, time
  shield            prompt shield: recall, false positives, area under the curve, time

options
  --set NAME        only this set; may be repeated
  --steps           retrieval: the effect of each ranking step; pii: every miss and false positive with its text
  --embeddings URL  retrieval: also search by meaning; base URL of an OpenAI-compatible API, without /embeddings
  --model NAME      retrieval: the embedding model; AIGW_EVAL_API_KEY contains its key
  --train           shield: train first, and write the weights and the record
  --left-out        shield: train without each set, and write the recall of these sets to the record
  --reports FILE    shield: only the texts of this file, written by "aigw shield report"; needs no data sets
  --postgres URL    retrieval: an empty PostgreSQL database (default: SQLite in a temporary directory)
  --out FILE        write all figures as JSON
  --no-build        use dist/ as it is

environment
  AIGW_EVAL_DIR     folder of the data sets (default: ../shared/eval)
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
  'left-out': { type: 'boolean', default: false },
  reports: { type: 'string' },
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
  if (values.reports !== undefined && !existsSync(values.reports)) {
    process.stderr.write(`${values.reports} does not exist. Write it with: aigw shield report\n`)
    return 2
  }
  if (values.reports === undefined && !existsSync(dir)) {
    process.stderr.write(`${dir} does not exist. Set AIGW_EVAL_DIR to the folder of the data sets.\n`)
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
    leftOut: values['left-out'],
    reports: values.reports,
    postgres: values.postgres,
    print: (line) => process.stdout.write(`${line}\n`),
  })
  if (values.out) writeFileSync(values.out, `${JSON.stringify(figures, null, 2)}\n`)
  return 0
}

process.exitCode = await main()
