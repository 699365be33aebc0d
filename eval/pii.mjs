// Measures detection of personal data: precision and recall per set and type, and false positives on texts without
// personal data.
// Run: npm run eval -- pii
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { createPiiDetector } from '../dist/daemon/safety/guards/pii/detector.js'
import { PII_ENTITIES } from '../dist/shared/pii-entities.js'
import { PII_WORST, WORST_CHARS, worstText } from './worst-texts.mjs'

/**
 * Maps the types of the sets to our entities. A finding of any listed entity counts as a match. Types without a listed
 * entity are not measured.
 */
const TYPES = {
  EMAIL_ADDRESS: ['EMAIL'],
  PHONE_NUMBER: ['PHONE'],
  IBAN_CODE: ['IBAN'],
  CRYPTO: ['CRYPTO_WALLET'],
  US_DRIVER_LICENSE: ['DRIVER_LICENSE'],
  UK_DRIVING_LICENCE: ['DRIVER_LICENSE'],
  US_PASSPORT: ['PASSPORT'],
  ES_NIF: ['ES_DNI', 'ES_NIE'],
  DE_TAX_ID: ['DE_STEUER_ID'],
  IT_FISCAL_CODE: ['IT_CODICE_FISCALE'],
  DOMAIN_NAME: ['URL'],
  DATE_TIME: ['DATE', 'DATE_OF_BIRTH'],
  STREET_ADDRESS: ['ADDRESS'],
  ZIP_CODE: ['ADDRESS'],
  GPE: ['LOCATION'],
  LOC: ['LOCATION'],
  location: ['LOCATION'],
  ORG: ['ORGANIZATION'],
  corporation: ['ORGANIZATION'],
  group: ['ORGANIZATION'],
  PER: ['PERSON'],
  person: ['PERSON'],
  PREFIX: ['TITLE'],
  NRP: ['NATIONALITY'],
  ...Object.fromEntries(PII_ENTITIES.map(({ name }) => [name, [name]])),
}
const SPAN_SETS = [
  'presidio-synth-v2',
  'presidio-generated-large',
  'presidio-generated-small',
  'presidio-recognizer-tests',
  'ner-wikigold',
  'ner-wnut17-test',
]
/** Sets of single values: maps their types to our entities. */
const VALUE_TYPES = {
  'stdnum-values': {
    iban: 'IBAN',
    bitcoin: 'CRYPTO_WALLET',
    'br.cpf': 'BR_CPF',
    'de.idnr': 'DE_STEUER_ID',
    'es.dni': 'ES_DNI',
    'es.nie': 'ES_NIE',
    'fr.nir': 'FR_NIR',
    'gb.nhs': 'UK_NHS',
    'in_.aadhaar': 'IN_AADHAAR',
    'in_.pan': 'IN_PAN',
    'it.codicefiscale': 'IT_CODICE_FISCALE',
    'us.ssn': 'US_SSN',
    'us.itin': 'US_ITIN',
    mac: 'MAC_ADDRESS',
  },
  'validatorjs-values': {
    isEmail: 'EMAIL',
    isCreditCard: 'CREDIT_CARD',
    isIBAN: 'IBAN',
    isBtcAddress: 'CRYPTO_WALLET',
    isEthereumAddress: 'CRYPTO_WALLET',
    isMACAddress: 'MAC_ADDRESS',
    isMobilePhone: 'PHONE',
    'isTaxID de-DE': 'DE_STEUER_ID',
    'isTaxID it-IT': 'IT_CODICE_FISCALE',
    'isTaxID en-IN': 'IN_PAN',
    'isIdentityCard ES': ['ES_DNI', 'ES_NIE'],
    'isIdentityCard IN': 'IN_AADHAAR',
  },
  'libphonenumber-examples': {
    fixedLine: 'PHONE',
    mobile: 'PHONE',
    tollFree: 'PHONE',
    premiumRate: 'PHONE',
    voip: 'PHONE',
  },
  'libphonenumber-matcher': { EXACT_GROUPING_CASES: 'PHONE', IMPOSSIBLE_CASES: 'PHONE' },
}
const ROUNDS = 5
const BENIGN_SETS = ['injection/oss-code', 'injection/oss-docs', 'secrets/lockfile-negatives']
/**
 * The published F2 score of Presidio 2.2, over all types of the set that Presidio generates itself (presidio-research).
 */
const PUBLISHED = { 'presidio-synth-v2': 'Presidio default 0.618, tuned with a transformer 0.845' }
const OVERLAP = 0.5
/** Sets whose exact borders are measured as well, and the overlap for this. */
const STRICT_SETS = ['presidio-synth-v2', 'presidio-generated-large']
const STRICT_OVERLAP = 0.9

/** Prints the tables and returns the figures of each set, by name. */
export async function evaluatePii({ dir, sets, steps, print }) {
  const detector = createPiiDetector({ entities: 'all' })
  const figures = {}
  const isSelected = (name) => sets.length === 0 || sets.includes(name)
  const printRow = (set, type, score) => print(row([set, type, score.expected, ...scoreCells(score)]))
  print(row(['set', 'type', 'count', 'precision', 'recall', 'F1', 'F2']))
  for (const name of SPAN_SETS.filter(isSelected)) {
    const rows = readRows(dir, `pii/${name}`)
    const found = evaluateSpans(rows, detector, steps ? print : undefined)
    figures[name] = found
    for (const [type, score] of Object.entries(found.types)) printRow(name, type, score)
    printRow(name, 'all types', found.all)
    printRow(name, 'by word, any type', found.words)
    if (STRICT_SETS.includes(name)) figures[name].strict = evaluateStrict(name, rows, detector, printRow)
    print(`  ${found.microsecondsPerKb.toFixed(1)} µs/KB${PUBLISHED[name] ? ` · ${PUBLISHED[name]} (F2)` : ''}`)
  }
  for (const [name, types] of Object.entries(VALUE_TYPES).filter(([name]) => isSelected(name))) {
    const scores = evaluateValues(readRows(dir, `pii/${name}`), types, steps ? print : undefined)
    figures[name] = scores
    for (const [type, score] of Object.entries(scores)) printRow(name, type, score)
  }
  print(row(['no personal data', 'entities', 'rows', 'rows hit', 'per 1,000', 'µs/KB', '']))
  for (const name of BENIGN_SETS.filter(isSelected)) {
    const rows = readRows(dir, name)
    figures[name] = {}
    for (const [kind, entities] of entityKinds()) {
      const found = evaluateBenign(
        rows,
        createPiiDetector({ entities }),
        steps && kind === 'default' ? print : undefined,
      )
      figures[name][kind] = found
      const cells = [rows.length, found.hits, found.perThousand.toFixed(2), found.microsecondsPerKb.toFixed(1)]
      print(row([name, kind, ...cells, JSON.stringify(found.types)]))
    }
  }
  if (sets.length === 0) figures.worst = printWorst(print)
  return figures
}

/** Measures CPU time for 256 KB of each worst text, and prints the five slowest. */
function printWorst(print) {
  const figures = {}
  for (const [kind, entities] of entityKinds().filter(([kind]) => kind === 'default' || kind === 'all')) {
    const detector = createPiiDetector({ entities })
    const times = PII_WORST.map((unit) => {
      const text = worstText(unit)
      return { unit, ms: (microsecondsPerKb([{ text }], detector) * WORST_CHARS) / 1e6 }
    })
    figures[kind] = times.sort((one, other) => other.ms - one.ms)
    const longest = figures[kind].slice(0, 5).map(({ unit, ms }) => `«${unit.trim()}» ${ms.toFixed(0)} ms`)
    print(`256 KB of the worst texts, ${kind}: ${longest.join(', ')}`)
  }
  return figures
}

function entityKinds() {
  const ofClass = (kind) => PII_ENTITIES.filter((each) => each.class === kind).map(({ name }) => name)
  const kinds = ['checksum', 'pattern', 'heuristic'].map((kind) => [kind, ofClass(kind)])
  // Without `entities` the detector uses the default set, which excludes role mailboxes.
  return [['default', undefined], ...kinds, ['all', 'all']]
}

/**
 * Measures with STRICT_OVERLAP: every type, and all types for three parts of the rows. Rules were chosen on the half
 * "chosen on", so the half "held out" shows the quality on new texts. Both halves share the templates of the set.
 */
function evaluateStrict(name, rows, detector, printRow) {
  const isFirstHalf = (text) => createHash('sha256').update(String(text)).digest()[0] % 2 === 0
  const all = evaluateSpans(rows, detector, null, STRICT_OVERLAP)
  for (const [type, score] of Object.entries(all.types)) printRow(`${name} @0.9`, type, score)
  const parts = {
    'all types': all.all,
    'chosen on': evaluateSpans(
      rows.filter(({ text }) => isFirstHalf(text)),
      detector,
      null,
      STRICT_OVERLAP,
    ).all,
    'held out': evaluateSpans(
      rows.filter(({ text }) => !isFirstHalf(text)),
      detector,
      null,
      STRICT_OVERLAP,
    ).all,
  }
  for (const [part, score] of Object.entries(parts)) printRow(`${name} @0.9`, part, score)
  return { types: all.types, ...parts }
}

function evaluateSpans(rows, detector, print, least = OVERLAP) {
  const types = {}
  const words = newScore()
  const findings = rows.map(({ text }) => detector.find(text))
  for (const [index, { text, spans }] of rows.entries()) {
    const found = findings[index]
    const known = spans.filter(({ type }) => TYPES[type])
    for (const span of known) {
      const score = scoreOf(types, scoredAs(span.type))
      score.expected++
      if (found.some((each) => TYPES[span.type].includes(each.type) && overlap(each, span) >= least)) score.recalled++
      else print?.(`  missed ${span.type} «${span.value}» in «${around(text, span)}»`)
    }
    for (const each of found) {
      const score = scoreOf(types, scoredAs(each.type))
      score.found++
      if (spans.some((span) => TYPES[span.type]?.includes(each.type) && overlap(each, span) >= least)) score.right++
      else print?.(`  wrong ${each.type} «${text.slice(each.start, each.end)}» in «${around(text, each)}»`)
    }
    countWords(text, spans, found, words)
  }
  return {
    types,
    all: sum(Object.values(types)),
    words,
    microsecondsPerKb: print === null ? undefined : microsecondsPerKb(rows, detector),
  }
}

/** Returns the name under which a set's type and our matching entity are both counted. */
function scoredAs(type) {
  const [name = type] = TYPES[type] ?? []
  return name === 'DATE_OF_BIRTH' ? 'DATE' : name
}

/** Counts how many words of personal data are covered by findings of any entity type. */
function countWords(text, spans, found, score) {
  for (const { index, 0: word } of text.matchAll(/[\p{L}\p{M}\p{N}]+/gu)) {
    const at = { start: index, end: index + word.length }
    const isPersonal = spans.some((span) => overlap(at, span) > 0)
    const isFound = found.some((each) => overlap(at, each) > 0)
    if (isPersonal) score.expected++
    if (isFound) score.found++
    if (isPersonal && isFound) {
      score.recalled++
      score.right++
    }
  }
}

function evaluateValues(rows, types, print) {
  const scores = {}
  const detectors = new Map()
  // The country of a row is the default region for phone numbers in that row.
  const detectorOf = (country) => {
    const regions = country ? [country] : []
    if (!detectors.has(country)) detectors.set(country, createPiiDetector({ entities: 'all', regions }))
    return detectors.get(country)
  }
  for (const { text, type, region, valid } of rows) {
    const entities = [types[type] ?? types[`${type} ${region}`] ?? []].flat()
    if (entities.length === 0 || valid === null) continue
    const score = scoreOf(scores, types[type] ? type : `${type} ${region}`)
    const [, country] = /(?:^|-)([A-Z]{2})$/.exec(region ?? '') ?? []
    const isFound = detectorOf(country)
      .find(text)
      .some((each) => entities.includes(each.type) && isAlmostAll(each, text))
    if (valid) score.expected++
    if (isFound) score.found++
    if (valid && isFound) {
      score.recalled++
      score.right++
    }
    if (valid !== isFound) print?.(`  ${valid ? 'missed' : 'wrong'} ${type} ${region ?? ''} «${text}»`)
  }
  return scores
}

function isAlmostAll({ start, end }, text) {
  return (end - start) / text.trim().length > 0.6
}

function evaluateBenign(rows, detector, print) {
  let hits = 0
  const types = {}
  for (const { text } of rows) {
    const found = detector.find(text)
    if (found.length > 0) hits++
    for (const type of new Set(found.map((each) => each.type))) types[type] = (types[type] ?? 0) + 1
    for (const each of found) print?.(`  ${each.type} «${text.slice(each.start, each.end)}» in «${around(text, each)}»`)
  }
  const perThousand = (hits * 1000) / rows.length
  return { rows: rows.length, hits, perThousand, types, microsecondsPerKb: microsecondsPerKb(rows, detector) }
}

/** Returns the CPU time of the fastest round, because the first rounds include JIT compilation time. */
function microsecondsPerKb(rows, detector) {
  const rounds = Array.from({ length: ROUNDS }, () => {
    // Clears the detector's cache, which contains the latest text.
    detector.find('')
    const before = process.cpuUsage()
    for (const { text } of rows) detector.find(text)
    const { user, system } = process.cpuUsage(before)
    return user + system
  })
  return (Math.min(...rounds) * 1000) / rows.reduce((chars, { text }) => chars + text.length, 0)
}

/** Returns the score with this name. Creates the score if it is missing. */
function scoreOf(scores, name) {
  scores[name] ??= newScore()
  return scores[name]
}

function newScore() {
  return { expected: 0, recalled: 0, found: 0, right: 0 }
}

function sum(scores) {
  const total = newScore()
  for (const score of scores) for (const key of Object.keys(total)) total[key] += score[key]
  return total
}

function scoreCells({ expected, recalled, found, right }) {
  const precision = found === 0 ? 1 : right / found
  const recall = expected === 0 ? 1 : recalled / expected
  return [precision, recall, fScore(precision, recall, 1), fScore(precision, recall, 2)].map((each) => each.toFixed(3))
}

function fScore(precision, recall, beta) {
  return precision + recall === 0 ? 0 : ((1 + beta ** 2) * precision * recall) / (beta ** 2 * precision + recall)
}

/** Returns the overlap of two ranges as intersection over union. */
function overlap(one, other) {
  const shared = Math.min(one.end, other.end) - Math.max(one.start, other.start)
  return shared <= 0 ? 0 : shared / (Math.max(one.end, other.end) - Math.min(one.start, other.start))
}

function around(text, { start, end }) {
  return text.slice(Math.max(0, start - 30), end + 20).replaceAll('\n', '⏎')
}

function readRows(dir, name) {
  const lines = readFileSync(path.join(dir, `${name}.jsonl`), 'utf8')
    .trim()
    .split('\n')
  return lines.map((line) => {
    const each = JSON.parse(line)
    return each.text_b64 === undefined ? each : { ...each, text: Buffer.from(each.text_b64, 'base64').toString() }
  })
}

function row(cells) {
  return cells.map((cell, index) => String(cell).padEnd([26, 20, 8][index] ?? 10)).join(' ')
}
