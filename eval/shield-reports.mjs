// Measures the prompt shield on texts that people reported with `aigw shield report`.
import { readFileSync } from 'node:fs'

const CLASSES = [
  { name: 'false alarms', label: 0 },
  { name: 'misses', label: 1 },
]

/** Reads a file of reports: one JSON object per line, with `text`, `label` and, optionally, `source`. */
export function readReports(file) {
  return readFileSync(file, 'utf8')
    .split('\n')
    .flatMap((line, at) => (line.trim() === '' ? [] : [{ line: at + 1, ...reportIn(line, `${file}:${at + 1}`) }]))
}

function reportIn(line, place) {
  let row
  try {
    row = JSON.parse(line)
  } catch {
    throw new Error(`${place}: is not JSON`)
  }
  if (typeof row?.text !== 'string' || (row.label !== 0 && row.label !== 1)) {
    throw new Error(`${place}: is not of the form {"text": "…", "label": 0 or 1}`)
  }
  return { text: row.text, label: row.label, source: row.source ?? 'user' }
}

/**
 * Prints how the shipped weights judge each class of reports, and every report that is still judged wrongly, without
 * its text. @param scan scans a text, with options
 */
export function measureReports(reports, scan, print) {
  const judged = reports.map((report) => ({ ...report, ...scan(report.text, { source: report.source }) }))
  const figures = {}
  for (const { name, label } of CLASSES) {
    const rows = judged.filter((one) => one.label === label)
    const count = (verdicts) => rows.filter(({ verdict }) => verdicts.includes(verdict)).length
    figures[name] = { rows: rows.length, blocked: count(['BLOCK']), flagged: count(['BLOCK', 'FLAG']) }
    print(`reported ${name}: ${rows.length}, BLOCK ${figures[name].blocked}, FLAG or BLOCK ${figures[name].flagged}`)
    const isWrong = ({ verdict }) => (label === 0) === ['BLOCK', 'FLAG'].includes(verdict)
    for (const { line, source, verdict, riskScore } of rows.filter(isWrong)) {
      print(`  line ${line}: ${verdict}, score ${riskScore}, source ${source}`)
    }
  }
  return figures
}
