/** Median of the values. Returns undefined if the list is empty. */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 ? sorted[middle] : sorted.length ? (sorted[middle - 1] + sorted[middle]) / 2 : undefined
}

/** Formats a figure with `digits` decimals and thousands separators. Returns a dash if it was not measured. */
export const figure = (value, digits = 0) =>
  value === undefined || !Number.isFinite(value)
    ? '-'
    : value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })

/** Returns a Markdown table with padded cells: the first column is left-aligned, figures are right-aligned. */
export function table(headings, rows) {
  const widths = headings.map((heading, at) => Math.max(heading.length, 3, ...rows.map((row) => row[at].length)))
  const line = (cells) =>
    `| ${cells.map((cell, at) => (at === 0 ? cell.padEnd(widths[at]) : cell.padStart(widths[at]))).join(' | ')} |`
  const rule = `|${widths.map((width, at) => (at === 0 ? '-'.repeat(width + 2) : `${'-'.repeat(width + 1)}:`)).join('|')}|`
  return [line(headings), rule, ...rows.map(line)].join('\n')
}

/** Returns the line that describes the machine. Every table begins with this line. */
export function machineLine(machine) {
  const cpus = machine.pinned ? 'gateway on CPU 0, load and mock on CPU 1' : 'not pinned'
  const store = machine.durable ? machine.fileSystem : `${machine.fileSystem}: NOT durable, use --data-dir`
  return `${machine.date}, Node ${machine.node.slice(1)}, ${machine.cpu} x ${machine.cpus}, ${cpus}, store on ${store}`
}
