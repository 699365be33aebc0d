// Measures the prompt shield on development sets. Scans each row in the same way as the gateway, with the row's source.
// Run: npm run eval -- shield [--train | --left-out | --reports FILE]
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { scanText } from '../dist/daemon/safety/guards/shield/scan.js'
import { mean, percentile } from './collections.mjs'
import { randomOf } from './shield-grammar.mjs'
import { measureReports, readReports } from './shield-reports.mjs'
import { carriersOf, isAttack, isBenign, isCounted, keyOf, readCorpus, readSets, wrapped } from './shield-rows.mjs'
import { TRANSFORMATIONS } from './shield-transformations.mjs'

/**
 * Published figures for comparison. These figures are not directly comparable: their authors used other copies of the
 * sets and other metrics.
 */
const PUBLISHED = {
  'deepset-prompt-injections': 'Prompt Guard 2: 13.3 % at 1 % FPR; ProtectAI v2: 36.7 %',
  notinject: 'false positives: PIGuard 0–12.7 %, Prompt Guard 2 4.4 %, ProtectAI v2 43 %, deepset model 71 %',
  injecagent: 'left out: n-gram regression 3 %',
  'inthewild-jailbreak': 'left out: n-gram regression 43 %',
}

const FLAG_SCORE = 50
const BLOCK_SCORE = 80
/** Timed runs per text. Only the fastest run is used, because other processes also use the machine. */
const TIMES = 3
/** How many blocked attacks and harmless texts are scanned in changed forms. */
const CHANGED_ROWS = 300

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const CORPUS_FOLDER = path.join(root, 'eval/corpus')
const BLIND_FILES = ['office-requests.jsonl', 'office-documents.jsonl']
/** Hand-written short commands and attacks for evaluation. Training excludes them. */
const SHORT_COMMANDS_FILE = path.join(root, 'test/fixtures/shield/short-commands.tsv')

/** Prints the tables and returns the figures of each set, by name. */
export async function evaluateShield({ dir, sets, train: trains, leftOut: leavesOut, reports, print }) {
  if (reports !== undefined) return { reports: measureReports(readReports(reports), scanText, print) }
  const rows = [...readSets(path.join(dir, 'injection')), ...readCorpus(CORPUS_FOLDER)]
  const excluded = new Set(readShortCommands().map(({ text }) => keyOf(text)))
  const trainer = trains || leavesOut ? await import('./shield-trainer.mjs') : undefined
  if (leavesOut) return { leftOut: trainer.leaveOut(rows, excluded, print) }
  const trained = trainer?.trainShield(rows, excluded, print)
  const options = trained ? { classifier: trained.classifier } : {}
  const measured = measureShipped(rows, sets, print, options)
  measured.shortCommands = measureShortCommands(print, options)
  measured.blind = measureBlind(print, options)
  measured.changed = measureChanged(rows, print, options)
  if (trained) trainer.writeTraining(rows, trained, measured)
  return measured
}

/**
 * Measures harmless texts whose author did not know the rules of the shield. They are only measured: neither training
 * nor thresholds use them.
 */
function measureBlind(print, options) {
  return Object.fromEntries(
    BLIND_FILES.map((file) => {
      const rows = readFileSync(path.join(root, 'test/fixtures/shield', file), 'utf8')
        .trim()
        .split('\n')
      const risks = rows.map((line) => {
        const { text, source = 'user' } = JSON.parse(line)
        return scanText(text, { ...options, source }).riskScore
      })
      const atBlock = risks.filter((risk) => risk >= BLOCK_SCORE).length
      const atFlag = risks.filter((risk) => risk >= FLAG_SCORE).length
      print(`${file}: ${atBlock} of ${rows.length} at BLOCK, ${atFlag} at FLAG or more`)
      return [file, { rows: rows.length, atBlock, atFlag }]
    }),
  )
}

function readShortCommands() {
  const lines = readFileSync(SHORT_COMMANDS_FILE, 'utf8').trim().split('\n')
  return lines.map((line) => {
    const [area, text] = line.split('\t')
    return { text, label: area === 'attack' ? 1 : 0 }
  })
}

/** Returns the lowest threshold that at most a `share` of the benign scores exceed. */
export function thresholdAt(benign, share) {
  const sorted = [...benign].sort((one, other) => other - one)
  const allowed = Math.floor(sorted.length * share)
  return sorted[allowed] ?? Number.NEGATIVE_INFINITY
}

export const shareAbove = (scores, threshold) => scores.filter((score) => score > threshold).length / scores.length

function measureShipped(rows, sets, print, options) {
  const counted = rows.filter((one) => isCounted(one) && one.split === 'report')
  const times = []
  const perSet = new Map()
  const isChosen = ({ set }) => sets.length === 0 || sets.includes(set)
  // Includes benign rows of all sets, because the threshold for 1 % of false positives covers all public sets.
  const benignRows = counted.filter((one) => isBenign(one) && isPublic(one))
  for (const one of new Set([...counted.filter(isChosen), ...benignRows])) {
    const scanned = { ...options, source: one.sources[0] }
    one.risk = scanText(one.text, scanned).riskScore
    one.riskAsUser = one.sources.includes('user') ? scanText(one.text, options).riskScore : undefined
    const micros = Math.min(...Array.from({ length: TIMES }, () => timeOf(() => scanText(one.text, scanned))))
    if (one.text.length >= 512 && one.text.length <= 2048) times.push((micros * 1024) / one.text.length)
    one.microsPerKb = (micros * 1024) / Math.max(512, one.text.length)
    if (isChosen(one)) perSet.set(one.set, [...(perSet.get(one.set) ?? []), one])
  }
  const benign = benignRows.map(({ risk }) => risk)
  const threshold = thresholdAt(benign, 0.01)
  print(`rows of the part "report"; 1 % of harmless rows of public sets have a risk score above ${threshold}\n`)
  print(
    row([
      'set',
      'attacks',
      'recall at 1 %',
      'at BLOCK',
      'as user',
      'benign',
      'FP at 1 %',
      'at BLOCK',
      'as user',
      'AUC',
      'µs/KB',
      'published',
    ]),
  )
  const figures = {}
  for (const [set, all] of perSet) {
    figures[set] = measure(set, all, benign, threshold)
    print(row(cells(set, figures[set])))
  }
  figures.pooled = measure('pooled', [...perSet.values()].flat().filter(isPublic), benign, threshold)
  print(row(cells('pooled', figures.pooled)))
  figures.time = { p50: percentile(times, 0.5), p99: percentile(times, 0.99) }
  print(
    `time per KB of texts of 0.5 to 2 KB: p50 ${figures.time.p50.toFixed(0)} µs, p99 ${figures.time.p99.toFixed(0)} µs`,
  )
  return figures
}

const isPublic = ({ set }) => !set.startsWith('own-')

function measureShortCommands(print, options) {
  const rows = readShortCommands().map((row) => ({ ...row, risk: scanText(row.text, options).riskScore }))
  const figuresOf = (risks) => ({
    rows: risks.length,
    atFlag: shareAbove(risks, FLAG_SCORE - 1),
    atBlock: shareAbove(risks, BLOCK_SCORE - 1),
  })
  const risksOf = (label) => rows.filter((row) => row.label === label).map(({ risk }) => risk)
  const figures = { benign: figuresOf(risksOf(0)), attacks: figuresOf(risksOf(1)) }
  const shares = ({ rows, atFlag, atBlock }) => `${percent(atBlock)} of ${rows} at BLOCK, ${percent(atFlag)} at FLAG`
  print(`short commands: ${shares(figures.benign)} or more; short attacks: ${shares(figures.attacks)} or more`)
  return figures
}

/** Scans blocked attacks and harmless texts in changed forms, inside other text and under each transformation. */
function measureChanged(rows, print, options) {
  const random = randomOf(31)
  const reported = rows.filter((one) => one.split === 'report' && isCounted(one) && one.text.length <= 2_000)
  const carriers = carriersOf(rows, 'report')
  const riskOf = (text, source) => scanText(text, { ...options, source }).riskScore
  const sampled = (list) => list.filter((_, at) => at % Math.ceil(list.length / CHANGED_ROWS) === 0)
  const blocked = sampled(reported.filter((one) => isAttack(one) && riskOf(one.text, one.sources[0]) >= BLOCK_SCORE))
  const harmless = sampled(reported.filter(isBenign))
  const forms = [
    ...['between', 'inside', 'repeated'].map((form) => ({
      name: form,
      apply: (text, random, source) => wrapped(text, form, carriers[source] ?? carriers.user, random),
    })),
    ...TRANSFORMATIONS,
  ]
  const figures = {}
  print(`\n${row(['form', 'attacks', 'still BLOCK', 'still FLAG', 'harmless', 'at BLOCK'])}`)
  for (const { name, apply } of forms) {
    const risksOf = (list) => list.map(({ text, sources }) => riskOf(apply(text, random, sources[0]), sources[0]))
    const attacks = risksOf(blocked)
    const benign = risksOf(harmless)
    figures[name] = {
      blocked: attacks.length,
      stillBlocked: shareAbove(attacks, BLOCK_SCORE - 1),
      stillFlagged: shareAbove(attacks, FLAG_SCORE - 1),
      harmless: benign.length,
      falseAtBlock: shareAbove(benign, BLOCK_SCORE - 1),
    }
    const { stillBlocked, stillFlagged, falseAtBlock } = figures[name]
    print(
      row([name, attacks.length, percent(stillBlocked), percent(stillFlagged), benign.length, percent(falseAtBlock)]),
    )
  }
  return figures
}

/** Run time in microseconds. */
function timeOf(run) {
  const started = performance.now()
  run()
  return (performance.now() - started) * 1000
}

function measure(set, all, benign, threshold) {
  const attacks = all.filter(isAttack).map(({ risk }) => risk)
  const own = all.filter(isBenign).map(({ risk }) => risk)
  const asUser = (rows) => rows.flatMap(({ riskAsUser }) => riskAsUser ?? [])
  return {
    attacks: attacks.length,
    benign: own.length,
    ...(attacks.length > 0
      ? {
          recall: shareAbove(attacks, threshold),
          recallAtBlock: shareAbove(attacks, BLOCK_SCORE - 1),
          recallAsUser: shareAbove(asUser(all.filter(isAttack)), threshold),
          auc: aucOf(attacks, benign),
        }
      : {}),
    ...(own.length > 0
      ? {
          falseAt1: shareAbove(own, threshold),
          falseAtBlock: shareAbove(own, BLOCK_SCORE - 1),
          falseAtBlockAsUser: shareAbove(asUser(all.filter(isBenign)), BLOCK_SCORE - 1),
        }
      : {}),
    microsPerKb: mean(all.map(({ microsPerKb }) => microsPerKb)),
    published: PUBLISHED[set] ?? '',
  }
}

/** Area under the curve: the probability that an attack scores higher than a harmless text. A tie counts half. */
function aucOf(attacks, benign) {
  const sorted = [...benign].sort((one, other) => one - other)
  const below = (score, orEqual) => {
    let low = 0
    let high = sorted.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (sorted[middle] < score || (orEqual && sorted[middle] === score)) low = middle + 1
      else high = middle
    }
    return low
  }
  return mean(attacks.map((score) => (below(score, false) + below(score, true)) / 2 / sorted.length))
}

export const percent = (share) => (Number.isNaN(share) ? '' : `${(share * 100).toFixed(1)} %`)
function cells(set, one) {
  const share = (value) => (value === undefined ? '' : percent(value))
  return [
    set,
    one.attacks,
    share(one.recall),
    share(one.recallAtBlock),
    share(one.recallAsUser),
    one.benign,
    share(one.falseAt1),
    share(one.falseAtBlock),
    share(one.falseAtBlockAsUser),
    one.auc?.toFixed(3) ?? '',
    one.microsPerKb.toFixed(0),
    one.published,
  ]
}
export const row = ([name, ...rest]) => `${name.padEnd(36)}${rest.map((cell) => String(cell).padStart(13)).join(' ')}`
