// Writes the figures of eval/shield-record.json into the tables of docs/evaluation.md. Run: node eval/shield-tables.mjs
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { mean } from './collections.mjs'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const PAGE = 'docs/evaluation.md'
const { measured, leftOut } = JSON.parse(readFileSync(path.join(root, 'eval/shield-record.json'), 'utf8'))

const percent = (share) => (share === undefined ? '' : `${(share * 100).toFixed(1)} %`)
const table = (head, rows) =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')

const isSet = (name) => typeof measured[name].attacks === 'number' && name !== 'pooled'
const isOwn = (name) => name.startsWith('own-')
const sets = Object.keys(measured).filter(isSet)

function publicSets() {
  const names = sets.filter((name) => !isOwn(name) && (measured[name].attacks > 0 || leftOut[name]))
  for (const name of Object.keys(leftOut)) if (!names.includes(name)) names.push(name)
  const rows = names.sort().map((name) => {
    const { attacks = 0, recall, recallAtBlock } = measured[name] ?? {}
    const left = leftOut[name]
    const leftCell = left ? `${percent(left.recall)} (${left.attacks} rows)` : ''
    return [name, attacks, percent(recall), percent(recallAtBlock), leftCell]
  })
  const { attacks, recall, recallAtBlock } = measured.pooled
  const average = mean(Object.values(leftOut).map((one) => one.recall))
  const last = ['**pooled** / **mean of left out**', attacks, percent(recall), percent(recallAtBlock), percent(average)]
  return table(['Set', 'attacks', 'recall at 1 %', 'at BLOCK', 'left out'], [...rows, last])
}

function ownSets() {
  const attacks = sets.filter((name) => isOwn(name) && !name.startsWith('own-languages') && measured[name].attacks > 0)
  const rows = attacks.map((name) => {
    const { attacks: count, recall, recallAtBlock } = measured[name]
    return [name, count, percent(recall), percent(recallAtBlock)]
  })
  const languages = sets.filter((name) => name.startsWith('own-languages') && measured[name].attacks > 0)
  const total = languages.reduce((sum, name) => sum + measured[name].attacks, 0)
  const all = (key) => languages.reduce((sum, name) => sum + measured[name][key] * measured[name].attacks, 0) / total
  rows.push([
    `own-languages, ${languages.length} languages`,
    total,
    percent(all('recall')),
    percent(all('recallAtBlock')),
  ])
  return table(['Own set', 'attacks', 'recall at 1 %', 'at BLOCK'], rows)
}

function falsePositives() {
  const rows = sets
    .filter((name) => measured[name].falseAtBlock > 0)
    .map((name) => [
      name,
      `${Math.round(measured[name].falseAtBlock * measured[name].benign)} of ${measured[name].benign}`,
    ])
  const { falseAtBlock, benign } = measured.pooled
  const all = ['all harmless public rows', `${percent(falseAtBlock)} of ${benign}`]
  return table(['False positives at BLOCK', 'Rows'], [all, ...rows, ['every other set', 0]])
}

function shortTexts() {
  const { benign, attacks } = measured.shortCommands
  return table(
    ['Short texts, written by hand, in 13 languages', 'at BLOCK', 'at FLAG or more'],
    [
      [
        `${benign.rows} everyday commands ("Reset my password please")`,
        percent(benign.atBlock),
        percent(benign.atFlag),
      ],
      [`${attacks.rows} attacks of the same length`, percent(attacks.atBlock), percent(attacks.atFlag)],
    ],
  )
}

function blindTexts() {
  const kinds = {
    'office-requests.jsonl': 'requests of employees',
    'office-documents.jsonl': 'documents and results of tools',
  }
  const rows = Object.entries(measured.blind).map(([file, { rows: count, atBlock, atFlag }]) => [
    `${count} ${kinds[file]} (\`${file}\`)`,
    atBlock,
    atFlag,
  ])
  return table(
    ['Everyday texts, by an author who did not know the rules of the shield', 'at BLOCK', 'at FLAG or more'],
    rows,
  )
}

function changedForms() {
  const rows = Object.entries(measured.changed).map(([form, one]) => [
    form,
    one.blocked,
    percent(one.stillBlocked),
    percent(one.stillFlagged),
    `${percent(one.falseAtBlock)} of ${one.harmless}`,
  ])
  return table(['Form', 'attacks', 'still BLOCK', 'still FLAG', 'harmless at BLOCK'], rows)
}

const TABLES = {
  'public sets': publicSets,
  'own sets': ownSets,
  'false positives': falsePositives,
  'short texts': shortTexts,
  'blind texts': blindTexts,
  'changed forms': changedForms,
}

let page = readFileSync(path.join(root, PAGE), 'utf8')
for (const [name, make] of Object.entries(TABLES)) {
  const [start, end] = [`<!-- shield: ${name} -->`, `<!-- end of ${name} -->`]
  const [from, to] = [page.indexOf(start), page.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`${PAGE} lacks the comments around the table "${name}"`)
  page = `${page.slice(0, from)}${start}\n\n${make()}\n\n${page.slice(to)}`
}
writeFileSync(path.join(root, PAGE), page)
spawnSync('npx', ['biome', 'format', '--write', PAGE], { cwd: root, stdio: 'ignore' })
