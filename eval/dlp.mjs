// Measures secrets detection: recall and precision per development set, false positives on texts without secrets, and
// time per KB. The baseline is one regular expression that matches fifteen well-known formats.
// Run: npm run eval -- dlp
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { DLP_DETECTORS } from '../dist/daemon/safety/guards/dlp/detector.js'
import { createSecretsDetector } from '../dist/daemon/safety/guards/dlp/secrets.js'
import { DLP_WORST, worstText } from './worst-texts.mjs'

const BASELINE = new RegExp(
  [
    '(?:AKIA|ASIA)[A-Z0-9]{16}',
    'gh[pousr]_[A-Za-z0-9]{36}',
    'glpat-[\\w-]{20}',
    'xox[abprs]-[\\w-]{10,}',
    'AIza[\\w-]{35}',
    'sk_live_\\w{16,}',
    'sk-[\\w-]{20,}',
    'SG\\.[\\w-]{16,}\\.[\\w-]{16,}',
    'eyJ[\\w-]+\\.[\\w-]+',
    '-----BEGIN [A-Z ]*PRIVATE KEY',
    'npm_\\w{36}',
    'hf_\\w{34}',
    'dop_v1_[0-9a-f]{64}',
    '://[^:@\\s/]+:[^@\\s/]+@',
    '(?:password|passwd|pwd|secret|token|api_?key)["\']?\\s*[=:]\\s*["\'][^"\']{8,}["\']',
  ].join('|'),
  'i',
)

/**
 * Matches samples whose secret is a placeholder: one character six times, a sequence of the alphabet or of digits, or
 * the words for a name and a password. A detector that reported these would also report documentation.
 */
const PLACEHOLDER =
  /([A-Za-z0-9#*])\1{5}|abcdef(?=gh|123)|ABCDEFG|123456789|1234567890|zyxwvu|ZYXWVU|mnbvc|:\/\/user(?:name)?:pass(?:word)?@|YOUR_?[A-Z]/
const isPlaceholder = (text) => PLACEHOLDER.test(text)

/** Texts without secrets. The target: at most 0.5 % of these texts have findings. */
const BENIGN = ['injection/oss-code', 'injection/oss-docs', 'secrets/lockfile-negatives']

/** Prints the tables and returns the figures. */
export async function evaluateDlp({ dir, sets, print }) {
  const detector = createSecretsDetector()
  const figures = { sets: {}, benign: {} }
  const isSelected = (name) => sets.length === 0 || sets.includes(name)

  print(
    'set                        positives  recall  without placeholders  precision  F1      one regex: recall  precision',
  )
  for (const name of setNames(dir).filter(isSelected)) {
    const rows = readRows(dir, `secrets/${name}`)
    if (!rows.some(({ label }) => label === 1)) continue
    const isHit = (text) => detector.find(text).length > 0
    const own = scoresOf(rows, isHit)
    own.withoutPlaceholders = scoresOf(
      rows.filter(({ label, text }) => label === 0 || !isPlaceholder(text)),
      isHit,
    )
    const baseline = scoresOf(rows, (text) => BASELINE.test(text))
    figures.sets[name] = { own, baseline }
    print(
      `${name.padEnd(26)} ${String(own.positives).padStart(9)}  ${share(own.recall)}   ${share(own.withoutPlaceholders.recall).padStart(20)} (${own.withoutPlaceholders.positives})  ${share(own.precision)}      ${share(own.f1)}   ${share(baseline.recall).padStart(17)}  ${share(baseline.precision)}`,
    )
  }

  print('')
  print('texts without secrets      texts  hits   one regex  µs per KB')
  for (const name of BENIGN.filter((one) => isSelected(path.basename(one)))) {
    const texts = readRows(dir, name).map(({ text }) => text)
    const hit = texts.filter((text) => detector.find(text).length > 0).length
    const microseconds = Math.min(...Array.from({ length: 10 }, () => timeOf(texts, detector)))
    const kilobytes = texts.reduce((sum, { length }) => sum + length, 0) / 1_024
    const baseline = texts.filter((text) => BASELINE.test(text)).length
    figures.benign[name] = { texts: texts.length, hit, baseline, microsecondsPerKilobyte: microseconds / kilobytes }
    print(
      `${path.basename(name).padEnd(26)} ${String(texts.length).padStart(5)}  ${percent(hit, texts.length)}  ${percent(baseline, texts.length).padStart(8)}  ${(microseconds / kilobytes).toFixed(1).padStart(10)}`,
    )
  }

  print('')
  print('slowest 256 KB texts        CPU ms')
  figures.worst = {}
  for (const [name, create] of Object.entries(DLP_DETECTORS)) {
    const times = DLP_WORST.map((unit) => ({ unit, ms: worstOf(create(), unit) }))
    figures.worst[name] = times
    const slowest = times.sort((one, other) => other.ms - one.ms).slice(0, 3)
    print(
      `${name.padEnd(26)} ${slowest.map(({ unit, ms }) => `${ms.toFixed(1)} (${JSON.stringify(unit)})`).join('  ')}`,
    )
  }
  return figures
}

/** Returns the fastest of three runs, because other processes also use the machine. */
function worstOf(detector, unit) {
  const text = worstText(unit)
  return Math.min(...Array.from({ length: 3 }, () => timeOf([text], detector))) / 1_000
}

/** Returns the CPU time of scanning the texts, in microseconds. */
function timeOf(texts, detector) {
  // Clears the detector's cache: otherwise a repeated scan of the same text would only read the cached result.
  detector.find('')
  const before = process.cpuUsage()
  for (const text of texts) detector.find(text)
  const { user, system } = process.cpuUsage(before)
  return user + system
}

function setNames(dir) {
  return readdirSync(path.join(dir, 'secrets'))
    .filter((file) => file.endsWith('.jsonl'))
    .map((file) => file.slice(0, -'.jsonl'.length))
    .sort()
}

function readRows(dir, name) {
  return readFileSync(path.join(dir, `${name}.jsonl`), 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))
    .map((row) => ({ ...row, text: row.text ?? Buffer.from(row.text_b64, 'base64').toString('utf8') }))
}

/** The computed precision is a lower bound: a negative example of one rule may be a valid secret for another rule. */
function scoresOf(rows, isHit) {
  const positives = rows.filter(({ label }) => label === 1).length
  const hits = rows.filter(({ text }) => isHit(text))
  const found = hits.filter(({ label }) => label === 1).length
  const recall = found / positives
  const precision = hits.length === 0 ? 1 : found / hits.length
  return { positives, recall, precision, f1: found === 0 ? 0 : (2 * precision * recall) / (precision + recall) }
}

const share = (value) => value.toFixed(3)
const percent = (part, whole) => `${((100 * part) / whole).toFixed(2)} %`
