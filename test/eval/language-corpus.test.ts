import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

type Row = { text: string; label: number; source: string; kind: string; lang: string; group: string; split: string }

const FOLDER = fileURLToPath(new URL('../../eval/corpus/languages/', import.meta.url))
const files = readdirSync(FOLDER).filter((file) => file.endsWith('.jsonl'))
const rowsOf = (file: string): Row[] =>
  readFileSync(FOLDER + file, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Row)

const FAMILIES = [
  ...['override', 'extraction', 'role', 'fake-turns', 'few-shot', 'fiction', 'translation', 'string-building'],
  ...['payload-splitting', 'tool-abuse', 'exfiltration', 'social-pressure'],
]

test('the corpus covers at least 38 languages', () => {
  expect(files.length).toBeGreaterThanOrEqual(38)
})

describe.each(files)('%s', (file) => {
  const rows = rowsOf(file)
  const attacks = rows.filter(({ label }) => label === 1)

  test('has attacks of each family, a third of them in documents, and more harmless texts', () => {
    expect(attacks.length).toBeGreaterThanOrEqual(40)
    expect(rows.length - attacks.length).toBeGreaterThanOrEqual(60)
    expect(attacks.filter(({ source }) => source !== 'user').length * 3).toBeGreaterThanOrEqual(attacks.length)
    expect(new Set(attacks.map(({ kind }) => kind))).toEqual(new Set(FAMILIES))
  })

  test('has complete rows, each once', () => {
    const faulty = rows.filter(
      ({ text, label, source, lang, split }) =>
        text.trim() === '' ||
        ![0, 1].includes(label) ||
        !['user', 'tool', 'retrieved', 'system', 'output'].includes(source) ||
        lang !== file.replace('.jsonl', '') ||
        !['train', 'choose', 'report'].includes(split),
    )
    expect(faulty).toEqual([])
    expect(new Set(rows.map(({ text }) => text)).size).toBe(rows.length)
  })

  test('names only hosts that cannot exist', () => {
    const hosts = rows.flatMap(({ text }) => text.match(/(?<=https?:\/\/|[\w-]@)[a-z0-9.-]*[a-z]/g) ?? [])
    expect(hosts.filter((host) => !host.endsWith('.example'))).toEqual([])
  })
})

test('rows of one group are in one split', () => {
  const splits = new Map<string, Set<string>>()
  for (const { group, split } of files.flatMap(rowsOf)) {
    splits.set(group, (splits.get(group) ?? new Set()).add(split))
  }
  expect([...splits].filter(([, of]) => of.size > 1)).toEqual([])
})
