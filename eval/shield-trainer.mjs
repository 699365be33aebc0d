// Trains the shield and writes the weights, and a record of the training data and of the figures.
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { classifierOf } from '../dist/daemon/safety/guards/shield/classifier.js'
import {
  addNamed,
  FEATURES,
  GROUPS,
  NAMED_AT,
  readFeatures,
  valueInGroup,
} from '../dist/daemon/safety/guards/shield/features.js'
import { readingsOf } from '../dist/daemon/safety/guards/shield/readings.js'
import { scanText } from '../dist/daemon/safety/guards/shield/scan.js'
import { isData, TEXT_SOURCES } from '../dist/daemon/safety/guards/shield/source.js'
import { mean } from './collections.mjs'
import { percent, row, thresholdAt } from './shield.mjs'
import {
  CARRIER_SETS,
  COMMANDS,
  carriersOf,
  copiesOf,
  copiesRandom,
  HARMFUL_SETS,
  isAttack,
  isBenign,
  isCounted,
  makeRows,
  SAMPLES,
  SPLITS,
} from './shield-rows.mjs'
import { createStore, quantised, score, TRAINING, train } from './shield-training.mjs'
import { TRANSFORMATIONS } from './shield-transformations.mjs'

const FEATURE_RANGE = { count: FEATURES, named: NAMED_AT }
const LONGEST_READ_CHARS = 4_000
/** The weight of a changed copy of a row, and of a row with another source than its natural one. */
const COPY_WEIGHT = 0.8
const OTHER_SOURCE_WEIGHT = 0.5
/** The share of public rows that get changed copies. Our own rows always get them. */
const COPIED_SHARE = 0.6

/** Risk scores, and the shares of harmless texts of the part "choose" that reach them. */
const SHARES = [
  [0.5, 0],
  [0.04, 20],
  [0.012, 50],
  [0.003, 80],
]
/** Few harmless documents and results of tools may be blocked, because a user cannot rephrase them. */
const DATA_SHARES = [
  [0.5, 0],
  [0.04, 20],
  [0.012, 50],
  [0.001, 80],
]
/** The distances in logits from the anchor of BLOCK to the anchors above it. */
const ABOVE_BLOCK = [
  [1.5, 92],
  [7, 100],
]
const PER_DOUBLING = 0.15

const LEFT_OUT_EPOCHS = 5

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const WEIGHTS_FILE = 'src/daemon/safety/guards/shield/weights.ts'
const RECORD_FILE = 'eval/shield-record.json'

/** Trains with all sets, and chooses the thresholds. */
export function trainShield(rows, excluded, print) {
  const counted = [...rows.filter(isCounted), ...makeRows(rows, excluded)]
  const store = createStore({ groups: GROUPS, valueInGroup, addNamed })
  const examples = examplesOf(store, counted)
  print(`${counted.length} rows, ${examples.length} examples, ${store.pieces.length / 5} pieces`)
  const networks = train(
    store,
    examples.filter(({ split }) => split === 'train'),
    FEATURE_RANGE,
  )
  const weights = calibrated(quantised(networks), counted)
  writeWeights(weights)
  return { weights, classifier: classifierOf(weights), store, examples, counted, print }
}

function readParts(text) {
  const parts = []
  for (const part of readingsOf(text.slice(0, LONGEST_READ_CHARS), true)) {
    if (part) parts.push(readFeatures(part.reading, part.hiddenBy !== undefined))
  }
  return parts
}

function examplesOf(store, rows) {
  const carriers = carriersOf(rows, 'train')
  const random = copiesRandom()
  const examples = []
  const add = ({ text, sources, set, label, key, split }, weight, isCopy) => {
    for (const [at, range] of store.add(readParts(text), sources).entries()) {
      const share = at === 0 ? 1 : OTHER_SOURCE_WEIGHT
      examples.push({ set, label, key, split, ...range, isNatural: at === 0, isCopy, weight: weight * share })
    }
  }
  for (const one of rows) {
    add(one, 1, false)
    const isOurs = one.set.startsWith('own-') || one.set.startsWith('made-')
    if (one.split !== 'train' || (!isOurs && random() >= COPIED_SHARE)) continue
    for (const copy of copiesOf(one, random, TRANSFORMATIONS, carriers)) add(copy, COPY_WEIGHT, true)
  }
  return examples
}

/** Chooses the anchors of each source with the harmless rows of the part "choose". */
export function calibrated(networks, rows) {
  const flat = Object.fromEntries(TEXT_SOURCES.map((source) => [source, [[0, 0]]]))
  const classifier = classifierOf({ networks, anchors: flat, perDoubling: PER_DOUBLING })
  const chosen = rows.filter((one) => isBenign(one) && one.split === 'choose')
  const logitsOf = (source) =>
    chosen.filter(({ sources }) => sources.includes(source)).map(({ text }) => logitOf(classifier, text, source))
  const logits = Object.fromEntries(TEXT_SOURCES.map((source) => [source, logitsOf(source)]))
  const anchors = Object.fromEntries(
    TEXT_SOURCES.map((source) => [
      source,
      anchorsOf(isData(source) ? DATA_SHARES : SHARES, logits[source], Object.values(logits).flat()),
    ]),
  )
  return { networks, anchors, perDoubling: PER_DOUBLING }
}

function logitOf(classifier, text, source) {
  let seen = -50
  const riskScore = (logit, pieces) => {
    seen = logit - PER_DOUBLING * Math.log2(Math.max(1, pieces))
    return 0
  }
  scanText(text, { source, classifier: { ...classifier, riskScore } })
  return seen
}

/** The largest distance between the anchors of FLAG and BLOCK. Otherwise, a few outliers would move an anchor far away. */
const WIDEST_STEP = 3

/** Sources with few rows have no reliable quantiles, so the rows of all sources limit their anchors. */
const LEAST_ROWS = 400

function anchorsOf(shares, own, all) {
  const logits = own.length >= LEAST_ROWS ? own : all
  let last = Number.NEGATIVE_INFINITY
  const anchors = shares.map(([share, risk]) => {
    const next = Math.max(last + 0.1, thresholdAt(logits, share))
    last = risk === 80 ? Math.min(next, last + WIDEST_STEP) : next
    return [last, risk]
  })
  return [...anchors, ...ABOVE_BLOCK.map(([above, risk]) => [last + above, risk])].map(([logit, risk]) => [
    Number(logit.toFixed(4)),
    risk,
  ])
}

/**
 * Trains without each set of attacks, without changed copies of rows and in fewer epochs to save time, and measures the
 * recall of its rows. Copies of its texts in other sets are also left out.
 */
function leaveOut({ store, examples, print }) {
  const benign = examples.filter((one) => one.split === 'report' && isBenign(one) && one.isNatural && isPublic(one))
  const adjusted = (list, scores) =>
    list.map(({ first, last }, at) => scores[at].logit - PER_DOUBLING * Math.log2(Math.max(1, last - first)))
  const leftOut = {}
  print(row(['left out', 'attacks', 'recall at 1 %']))
  for (const set of new Set(examples.filter((one) => isAttack(one) && isPublic(one)).map((one) => one.set))) {
    const own = examples.filter((one) => one.set === set && isAttack(one) && one.isNatural && !one.isCopy)
    const keys = new Set(own.map(({ key }) => key))
    const rest = examples.filter(
      (one) => one.split === 'train' && one.isNatural && !one.isCopy && one.set !== set && !keys.has(one.key),
    )
    const networks = train(store, rest, FEATURE_RANGE, { epochs: LEFT_OUT_EPOCHS })
    const threshold = thresholdsOf(benign, adjusted(benign, score(store, networks, benign)))
    const scores = adjusted(own, score(store, networks, own))
    const found = scores.filter((logit, at) => logit > threshold(own[at].source)).length
    leftOut[set] = { attacks: own.length, recall: found / own.length }
    print(row([set, own.length, percent(leftOut[set].recall)]))
  }
  print(`${row(['mean of sets', '', percent(mean(Object.values(leftOut).map(({ recall }) => recall)))])}\n`)
  return leftOut
}

const isPublic = ({ set }) => !set.startsWith('own-') && !set.startsWith('made-')

/** Returns the threshold that 1 % of the harmless texts of a source exceed. Users' texts and data have their own one. */
function thresholdsOf(benign, logits) {
  const at = (data) =>
    thresholdAt(
      logits.filter((_, index) => isData(benign[index].source) === data),
      0.01,
    )
  const [ofUsers, ofData] = [at(false), at(true)]
  return (source) => (isData(source) ? ofData : ofUsers)
}

export function writeWeights(weights) {
  const literal = JSON.stringify(weights, null, 2)
    .replace(/"(\w+)":/g, '$1:')
    .replaceAll('"', "'")
  writeFileSync(
    path.join(root, WEIGHTS_FILE),
    `// Generated by \`npm run eval -- shield --train\`; ${RECORD_FILE} lists the training data.\n` +
      `import type { Weights } from './network-weights.ts'\n\nexport const WEIGHTS: Weights = ${literal}\n`,
  )
  format(WEIGHTS_FILE)
}

const format = (file) => spawnSync('npx', ['biome', 'check', '--write', file], { cwd: root, stdio: 'ignore' })

/** Writes the record, after training once without each set. */
export function writeTraining(rows, trained, measured) {
  const counts = {}
  for (const { set, label, split } of rows.filter(isCounted)) {
    counts[set] ??= { attacks: 0, benign: 0, choose: 0, report: 0 }
    if (split === 'train') counts[set][label === 1 ? 'attacks' : 'benign']++
    else counts[set][split]++
  }
  const record = {
    date: new Date().toISOString().slice(0, 10),
    training: TRAINING,
    splits: SPLITS,
    anchors: trained.weights.anchors,
    licences:
      'sets of eval/injection, each under MIT, Apache-2.0, CC0 or CC BY; eval/corpus and made samples are of this repository',
    rows: counts,
    madeSamples: { ...SAMPLES, commands: COMMANDS, goals: HARMFUL_SETS, carriers: CARRIER_SETS },
    measured,
  }
  const write = () => {
    writeFileSync(path.join(root, RECORD_FILE), `${JSON.stringify(record, null, 2)}\n`)
    format(RECORD_FILE)
  }
  write()
  trained.leftOut = leaveOut(trained)
  record.leftOut = trained.leftOut
  write()
}
