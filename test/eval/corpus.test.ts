import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

interface Row {
  text: string
  label: number
  source: string
  kind: string
  lang: string
  group: string
  made: string
  split: string
}

const SOURCES = ['user', 'tool', 'retrieved', 'system', 'output']
const SPLITS = ['train', 'choose', 'report']

const rowsOf = (folder: string): (Row & { file: string })[] => {
  const path = fileURLToPath(new URL(`../../eval/corpus/${folder}/`, import.meta.url))
  return readdirSync(path)
    .filter((file) => file.endsWith('.jsonl'))
    .flatMap((file) =>
      readFileSync(path + file, 'utf8')
        .trimEnd()
        .split('\n')
        .map((line) => ({ ...(JSON.parse(line) as Row), file: `${folder}/${file}` })),
    )
}

const attacks = rowsOf('attacks')
const harmless = rowsOf('harmless')
const rows = [...attacks, ...harmless]

describe('the corpus of the prompt shield', () => {
  it('has the label of its folder and known values in each row', () => {
    const faulty = rows.filter(
      (row) =>
        row.label !== (row.file.startsWith('attacks/') ? 1 : 0) ||
        row.text.trim() === '' ||
        !row.kind ||
        row.lang !== 'en' ||
        !['hand', 'grammar'].includes(row.made) ||
        !SOURCES.includes(row.source) ||
        !SPLITS.includes(row.split),
    )
    expect(faulty).toEqual([])
  })

  it('has no text twice', () => {
    const keyOf = ({ text }: Row) => text.toLowerCase().replace(/\s+/g, ' ').trim()
    const seen = new Map<string, string>()
    const copies = rows.filter((row) => {
      const isCopy = seen.has(keyOf(row))
      seen.set(keyOf(row), row.file)
      return isCopy
    })
    expect(copies.map(({ file, text }) => `${file}: ${text}`)).toEqual([])
  })

  it('keeps all rows of one template or carrier in one split', () => {
    const splits = new Map<string, Set<string>>()
    for (const { group, split } of rows) splits.set(group, (splits.get(group) ?? new Set()).add(split))
    expect([...splits].filter(([, used]) => used.size > 1)).toEqual([])
  })

  it('has harmless texts of each source and kind of length', () => {
    for (const source of SOURCES) expect(harmless.filter((row) => row.source === source).length).toBeGreaterThan(50)
    expect(harmless.some(({ text }) => text.split(/\s+/).length <= 3)).toBe(true)
  })
})
