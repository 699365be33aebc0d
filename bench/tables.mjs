/** Middle of the values, between the two middle ones of an even number; undefined of none. */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 ? sorted[middle] : sorted.length ? (sorted[middle - 1] + sorted[middle]) / 2 : undefined
}

/** A figure for a table: `digits` after the point, thousands apart, a dash for what was not measured. */
export const figure = (value, digits = 0) =>
  value === undefined || !Number.isFinite(value)
    ? '-'
    : value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })

/** A Markdown table that is aligned for the eye as well: the first column left, figures right. */
export function table(headings, rows) {
  const widths = headings.map((heading, at) => Math.max(heading.length, 3, ...rows.map((row) => row[at].length)))
  const line = (cells) =>
    `| ${cells.map((cell, at) => (at === 0 ? cell.padEnd(widths[at]) : cell.padStart(widths[at]))).join(' | ')} |`
  const rule = `|${widths.map((width, at) => (at === 0 ? '-'.repeat(width + 2) : `${'-'.repeat(width + 1)}:`)).join('|')}|`
  return [line(headings), rule, ...rows.map(line)].join('\n')
}

/** The line above every table that says what its figures depend on. */
export function machineLine(machine) {
  const cpus = machine.pinned ? 'gateway on CPU 0, load and mock on CPU 1' : 'not pinned'
  const store = machine.durable ? machine.fileSystem : `${machine.fileSystem}: NOT durable, use --data-dir`
  return `${machine.date}, Node ${machine.node.slice(1)}, ${machine.cpu} x ${machine.cpus}, ${cpus}, store on ${store}`
}
