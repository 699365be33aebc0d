// Measures the prompt shield on development sets. Scans each row in the same way as POST /prompt-shield/scan.
// Run: npm run eval -- shield [--train]
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { classifierOf } from '../dist/daemon/safety/guards/shield/classifier.js'
import { FEATURES, featuresOf, NAMED_AT } from '../dist/daemon/safety/guards/shield/features.js'
import { readText, windowsOf } from '../dist/daemon/safety/guards/shield/reading.js'
import { scanText } from '../dist/daemon/safety/guards/shield/scan.js'
import { mean, percentile } from './collections.mjs'
import { makeCommands } from './shield-commands.mjs'
import { makeSamples } from './shield-samples.mjs'
import { logitOf, quantised, TRAINING, train } from './shield-training.mjs'

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

const FEATURE_RANGE = { count: FEATURES, named: NAMED_AT }
/** Share of rows that are used only for validation. All copies of the same text belong to the same part. */
const VALIDATION_SHARE = 0.2
const LONGEST_READ_CHARS = 16_000
const FLAG_SCORE = 50
const BLOCK_SCORE = 80
/** Timed runs per text. Only the fastest run is used, because other processes also use the machine. */
const TIMES = 3
const SAMPLES = { seed: 7, count: 400 }
const COMMANDS = { seed: 11, count: 300 }
const HARMFUL_SETS = ['advbench-behaviors', 'harmbench-behaviors', 'fuzzyai-harmful']
const CARRIER_SETS = ['oss-docs', 'oss-code', 'injecagent-benign-tool-outputs', 'arena-hard']

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
/** Hand-written short commands and attacks for evaluation. Training excludes them. */
const SHORT_COMMANDS_FILE = path.join(root, 'test/fixtures/shield/short-commands.tsv')

/** Prints the tables and returns the figures of each set, by name. */
export async function evaluateShield({ dir, sets, train: trains, print }) {
  const rows = readRows(path.join(dir, 'injection'))
  const figures = trains ? trainAndMeasure(rows, print) : undefined
  const classifier = figures && classifierOf(figures.weights)
  const measured = measureShipped(rows, sets, print, classifier)
  measured.shortCommands = measureShortCommands(print, classifier)
  if (figures) writeTraining(rows, figures, measured)
  return { ...measured, ...(figures ? { leftOut: figures.leftOut } : {}) }
}

function readRows(folder) {
  return readdirSync(folder).flatMap((file) =>
    readFileSync(path.join(folder, file), 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => {
        const { text, label, kind } = JSON.parse(line)
        const key = keyOf(text)
        return { set: path.basename(file, '.jsonl'), text, label, kind, key, validation: isForValidation(key) }
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

/** Texts that differ only in case, spaces and punctuation have the same key. */
const keyOf = (text) =>
  text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, ' ')
    .trim()
    .slice(0, 400)

function isForValidation(key) {
  let hash = 0x811c9dc5
  for (let at = 0; at < key.length; at++) hash = Math.imul(hash ^ key.charCodeAt(at), 0x01000193)
  return ((hash ^ (hash >>> 15)) >>> 0) % 1000 < VALIDATION_SHARE * 1000
}

function windowsOfText(text) {
  const reading = readText(text.slice(0, LONGEST_READ_CHARS))
  return [...windowsOf(reading.words.words.length)].map((window) => featuresOf(reading, window).features)
}

const isCounted = ({ label }) => label !== null
const isAttack = ({ label }) => label === 1
const isBenign = ({ label }) => label === 0

/** Returns the lowest threshold that at most a `share` of the benign scores exceed. */
function thresholdAt(benign, share) {
  const sorted = [...benign].sort((one, other) => other - one)
  const allowed = Math.floor(sorted.length * share)
  return sorted[allowed] ?? Number.NEGATIVE_INFINITY
}

const shareAbove = (scores, threshold) => scores.filter((score) => score > threshold).length / scores.length

function trainAndMeasure(rows, print) {
  const counted = rows.filter(isCounted)
  for (const row of counted) row.windows = windowsOfText(row.text)
  const trainingRows = counted.filter(({ validation }) => !validation)
  const evaluationKeys = new Set(readShortCommands().map(({ text }) => keyOf(text)))
  const commands = makeCommands(COMMANDS).filter(
    ({ text }) => !text.split('\n').some((line) => evaluationKeys.has(keyOf(line))),
  )
  const samples = makeSamples({
    ...SAMPLES,
    goals: rows
      .filter(({ set }) => HARMFUL_SETS.includes(set))
      .map(({ text }) => (/[.?!]$/.test(text) ? text : `${text}.`)),
    carriers: trainingRows
      .filter((row) => isBenign(row) && CARRIER_SETS.includes(row.set) && row.text.length > 250)
      .map(({ text }) => text),
  })
  const made = [...samples, ...commands].map((sample) => ({ ...sample, windows: windowsOfText(sample.text) }))
  const scoreOf = (networks) => (row) => Math.max(...row.windows.map((window) => logitOf(networks, window)))
  const validation = counted.filter((row) => row.validation)

  const networks = train([...trainingRows, ...made], FEATURE_RANGE)
  const benign = validation.filter(isBenign).map(scoreOf(networks))
  const leftOut = {}
  print(row(['left out', 'attacks', 'recall at 1 %', 'benign', 'over 1 %']))
  for (const set of new Set(counted.filter(isAttack).map((one) => one.set))) {
    const own = counted.filter((one) => one.set === set)
    const keys = new Set(own.map(({ key }) => key))
    const without = train(
      [...trainingRows.filter((one) => one.set !== set && !keys.has(one.key)), ...made],
      FEATURE_RANGE,
    )
    const threshold = thresholdAt(validation.filter(isBenign).map(scoreOf(without)), 0.01)
    const attacks = own.filter(isAttack).map(scoreOf(without))
    const others = own.filter(isBenign).map(scoreOf(without))
    leftOut[set] = { attacks: attacks.length, recall: shareAbove(attacks, threshold) }
    print(
      row([
        set,
        attacks.length,
        percent(leftOut[set].recall),
        others.length,
        others.length ? percent(shareAbove(others, threshold)) : '',
      ]),
    )
  }
  const recalls = Object.values(leftOut).map(({ recall }) => recall)
  print(`${row(['mean of sets', '', percent(mean(recalls))])}\n`)
  return { leftOut, made: made.length, weights: quantised(networks, anchorsOf(benign)) }
}

/** Maps logits to risk scores. The percentiles of the harmless texts determine the mapping. */
function anchorsOf(benign) {
  const at = (share) => thresholdAt(benign, share) + 1e-6
  const top = at(0.001)
  const anchors = [
    [at(0.5), 0],
    [at(0.04), 20],
    [at(0.015), 50],
    [at(0.004), 80],
  ]
  const steps = [...anchors, [Math.max(top, anchors[3][0] + 1.5), 92], [Math.max(top, anchors[3][0] + 1.5) + 6, 100]]
  return steps.map(([logit, score]) => [Number(logit.toFixed(4)), score])
}

function measureShipped(rows, sets, print, classifier) {
  const counted = rows.filter(isCounted)
  const times = []
  const perSet = new Map()
  const isChosen = ({ set }) => sets.length === 0 || sets.includes(set)
  // Includes benign rows of all sets, because the threshold for 1 % of false positives covers all sets.
  const benignRows = counted.filter((one) => one.validation && isBenign(one))
  for (const one of new Set([...counted.filter(isChosen), ...benignRows])) {
    const options = classifier ? { classifier } : {}
    one.risk = scanText(one.text, options).riskScore
    const micros = Math.min(...Array.from({ length: TIMES }, () => timeOf(() => scanText(one.text, options))))
    if (one.text.length >= 512 && one.text.length <= 2048) times.push((micros * 1024) / one.text.length)
    one.microsPerKb = (micros * 1024) / Math.max(512, one.text.length)
    if (isChosen(one)) perSet.set(one.set, [...(perSet.get(one.set) ?? []), one])
  }
  const validation = [...perSet.values()].flat().filter((one) => one.validation)
  const benign = benignRows.map(({ risk }) => risk)
  const threshold = thresholdAt(benign, 0.01)
  print(`validation rows; 1 % of harmless rows have a risk score above ${threshold}\n`)
  print(
    row([
      'set',
      'attacks',
      'recall at 1 %',
      'at BLOCK',
      'benign',
      'FP at 1 %',
      'at BLOCK',
      'AUC',
      'µs/KB',
      'published',
    ]),
  )
  const figures = {}
  for (const [set, all] of perSet) {
    const validationRows = all.filter((one) => one.validation)
    figures[set] = measure(set, validationRows, benign, threshold, all)
    print(row(cells(set, figures[set])))
  }
  figures.pooled = measure('pooled', validation, benign, threshold, validation)
  print(row(cells('pooled', figures.pooled)))
  if (sets.length === 0) {
    const all = counted.filter(isBenign).map(({ risk }) => risk)
    print(`\nall rows of benign sets, including training rows: ${percent(shareAbove(all, BLOCK_SCORE - 1))} at BLOCK`)
  }
  figures.time = { p50: percentile(times, 0.5), p99: percentile(times, 0.99) }
  print(
    `time per KB of texts of 0.5 to 2 KB: p50 ${figures.time.p50.toFixed(0)} µs, p99 ${figures.time.p99.toFixed(0)} µs`,
  )
  return figures
}

function measureShortCommands(print, classifier) {
  const rows = readShortCommands().map((row) => ({ ...row, risk: scanText(row.text, { classifier }).riskScore }))
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

/** Run time in microseconds. */
function timeOf(run) {
  const started = performance.now()
  run()
  return (performance.now() - started) * 1000
}

function measure(set, validationRows, benign, threshold, all) {
  const attacks = validationRows.filter(isAttack).map(({ risk }) => risk)
  const own = validationRows.filter(isBenign).map(({ risk }) => risk)
  return {
    attacks: attacks.length,
    benign: own.length,
    ...(attacks.length > 0
      ? {
          recall: shareAbove(attacks, threshold),
          recallAtBlock: shareAbove(attacks, BLOCK_SCORE - 1),
          auc: aucOf(attacks, benign),
        }
      : {}),
    ...(own.length > 0 ? { falseAt1: shareAbove(own, threshold), falseAtBlock: shareAbove(own, BLOCK_SCORE - 1) } : {}),
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

const percent = (share) => `${(share * 100).toFixed(1)} %`
const cells = (
  set,
  { attacks, benign, recall, recallAtBlock, falseAt1, falseAtBlock, auc, microsPerKb, published },
) => {
  const share = (value) => (value === undefined ? '' : percent(value))
  return [
    set,
    attacks,
    share(recall),
    share(recallAtBlock),
    benign,
    share(falseAt1),
    share(falseAtBlock),
    auc?.toFixed(3) ?? '',
    microsPerKb.toFixed(0),
    published,
  ]
}
const row = ([name, ...rest]) => `${name.padEnd(34)}${rest.map((cell) => String(cell).padStart(13)).join(' ')}`

const WEIGHTS_FILE = 'src/daemon/safety/guards/shield/weights.ts'
const RECORD_FILE = 'eval/shield-record.json'

function writeTraining(rows, { leftOut, made, weights }, measured) {
  const literal = JSON.stringify(weights, null, 2)
    .replace(/"(\w+)":/g, '$1:')
    .replaceAll('"', "'")
  writeFileSync(
    path.join(root, WEIGHTS_FILE),
    `// Written by \`npm run eval -- shield --train\`; ${RECORD_FILE} lists the training data.\n` +
      `import type { Weights } from './network-weights.ts'\n\nexport const WEIGHTS: Weights = ${literal}\n`,
  )
  const counts = {}
  for (const { set, label, validation } of rows.filter(isCounted)) {
    counts[set] ??= { attacks: 0, benign: 0, validation: 0 }
    if (validation) counts[set].validation++
    else counts[set][label === 1 ? 'attacks' : 'benign']++
  }
  const record = {
    date: new Date().toISOString().slice(0, 10),
    training: TRAINING,
    licences: 'sets of eval/injection, each under MIT, Apache-2.0, CC0 or CC BY; made samples are of this repository',
    rows: counts,
    madeSamples: { ...SAMPLES, commands: COMMANDS, rows: made, goals: HARMFUL_SETS, carriers: CARRIER_SETS },
    leftOut,
    validation: measured,
  }
  writeFileSync(path.join(root, RECORD_FILE), `${JSON.stringify(record, null, 2)}\n`)
  spawnSync('npx', ['biome', 'check', '--write', WEIGHTS_FILE, RECORD_FILE], { cwd: root, stdio: 'ignore' })
}
