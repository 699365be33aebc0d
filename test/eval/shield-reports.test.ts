import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'

type Report = { text: string; label: 0 | 1; source: string; line: number }
type Scan = (text: string, options: { source: string }) => { verdict: string; riskScore: number }

const { readReports, measureReports } = (await import(
  new URL('../../eval/shield-reports.mjs', import.meta.url).href
)) as {
  readReports: (file: string) => Report[]
  measureReports: (reports: Report[], scan: Scan, print: (line: string) => void) => object
}

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aigw-reports-'))
})
afterEach(() => rm(folder, { recursive: true }))

async function fileWith(text: string): Promise<string> {
  const path = join(folder, 'reports.jsonl')
  await writeFile(path, text)
  return path
}

test('reports are judged by class, with their source, and texts are not printed', async () => {
  const file = await fileWith(
    '{"text":"calm","label":0,"source":"user","kind":"report"}\n{"text":"loud","label":0,"source":"tool"}\n\n' +
      '{"text":"loud","label":1,"source":"tool"}\n{"text":"calm","label":1}\n',
  )
  const lines: string[] = []
  const scan: Scan = (text, { source }) =>
    text === 'loud' && source === 'tool' ? { verdict: 'BLOCK', riskScore: 90 } : { verdict: 'ALLOW', riskScore: 2 }
  expect(measureReports(readReports(file), scan, (line) => lines.push(line))).toEqual({
    'false alarms': { rows: 2, blocked: 1, flagged: 1 },
    misses: { rows: 2, blocked: 1, flagged: 1 },
  })
  expect(lines).toEqual([
    'reported false alarms: 2, BLOCK 1, FLAG or BLOCK 1',
    '  line 2: BLOCK, score 90, source tool',
    'reported misses: 2, BLOCK 1, FLAG or BLOCK 1',
    '  line 5: ALLOW, score 2, source user',
  ])
})

test.each(['{"text":"x"}', '{"label":1}', 'text', 'null'])('a line that is no report is named: %s', async (line) => {
  const file = await fileWith(`{"text":"x","label":1}\n${line}\n`)
  expect(() => readReports(file)).toThrow(`${file}:2: is not`)
})
