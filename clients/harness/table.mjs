// The table of docs/clients.md.
import { readFileSync, writeFileSync } from 'node:fs'
import { SCENARIOS } from './scenarios.mjs'

const INTERFACES = { chat: 'Chat completions', responses: 'Responses', messages: 'Anthropic', gemini: 'Gemini' }
const BEGIN = '<!-- clients:begin. Written by `npm run clients -- --write`. -->'
const END = '<!-- clients:end -->'

const cellText = (cell) => (cell === undefined ? '' : cell.kind)

/** Returns the result of a run for a terminal. */
export function asText(rows) {
  const lines = rows.map(({ id, cells, broken }) => {
    const counts = new Map()
    for (const { kind } of Object.values(cells)) counts.set(kind, (counts.get(kind) ?? 0) + 1)
    const failures = Object.entries(cells).filter(([, { kind }]) => kind === 'FAIL' || kind === 'client')
    const head = broken ? 'does not start' : [...counts].map(([kind, count]) => `${count} ${kind}`).join(', ')
    return [`${id}: ${head}`, ...failures.map(([scenario, { kind, why }]) => `  ${scenario}: ${kind} (${why})`)].join(
      '\n',
    )
  })
  return lines.join('\n')
}

/** Returns the result as Markdown: one table of the cells, and the reasons below it. */
export function asMarkdown(rows, date = new Date().toISOString().slice(0, 10)) {
  const reasons = []
  const note = (why) => {
    if (!reasons.includes(why)) reasons.push(why)
    return `<sup>${reasons.indexOf(why) + 1}</sup>`
  }
  const heads = ['Client', 'Interface', ...SCENARIOS.map(({ title }) => title)]
  const body = rows.map(({ name, packages, interface: spoken, cells }) => {
    const versions = Object.entries(packages)
      .map(([one, version]) => `${one} ${version}`)
      .join(', ')
    const filled = SCENARIOS.map(({ id }) => `${cellText(cells[id])}${cells[id]?.why ? note(cells[id].why) : ''}`)
    return [`${name} (${versions})`, INTERFACES[spoken], ...filled]
  })
  const line = (cells) => `| ${cells.join(' | ')} |`
  const table = [line(heads), line(heads.map(() => '---')), ...body.map(line)].join('\n')
  return `${table}\n\n${reasons.map((why, at) => `${at + 1}. ${why}`).join('\n')}\n\nRun on ${date}.`
}

/** Replaces the table between the markers of a file. */
export function writeTable(file, rows) {
  const text = readFileSync(file, 'utf8')
  const from = text.indexOf(BEGIN)
  const to = text.indexOf(END)
  if (from < 0 || to < from) throw new Error(`${file} does not contain the markers of the table`)
  writeFileSync(file, `${text.slice(0, from)}${BEGIN}\n\n${asMarkdown(rows)}\n\n${text.slice(to)}`)
}
