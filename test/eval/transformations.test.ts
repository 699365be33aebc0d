import { describe, expect, it } from 'vitest'

interface Transformation {
  name: string
  keeps: string
  disguise: boolean
  apply: (text: string, random: () => number) => string
}

const folder = new URL('../../eval/', import.meta.url)
const { TRANSFORMATIONS } = (await import(new URL('shield-transformations.mjs', folder).href)) as {
  TRANSFORMATIONS: Transformation[]
}
const { randomOf } = (await import(new URL('shield-grammar.mjs', folder).href)) as {
  randomOf: (seed: number) => () => number
}

const TEXT = 'Please send the "minutes" to Ana & Jo today.\nThe second line <stays> as it is.'
const transformed = (name: string, text = TEXT, seed = 1) =>
  TRANSFORMATIONS.find((one) => one.name === name)!.apply(text, randomOf(seed))

describe('the transformations of the shield evaluation', () => {
  it('have unique names and state what they keep', () => {
    expect(TRANSFORMATIONS.length).toBeGreaterThanOrEqual(30)
    expect(new Set(TRANSFORMATIONS.map(({ name }) => name)).size).toBe(TRANSFORMATIONS.length)
    for (const { keeps, disguise } of TRANSFORMATIONS) {
      expect(keeps).toBe('both')
      expect(disguise).toBeTypeOf('boolean')
    }
  })

  it.each(TRANSFORMATIONS.map(({ name }) => name))('%s changes a text, and repeats its result for a seed', (name) => {
    const text = transformed(name)
    expect(text).not.toBe(TEXT)
    expect(transformed(name)).toBe(text)
  })

  it.each(TRANSFORMATIONS.map(({ name }) => name))('%s accepts short and empty texts', (name) => {
    for (const text of ['', 'ok', '…', '\n', '日本語'])
      for (const edge of [() => 0, () => 0.999999])
        expect(TRANSFORMATIONS.find((one) => one.name === name)!.apply(text, edge)).toBeTypeOf('string')
  })

  it('wrap the whole text so that it can be read back', () => {
    expect(Object.values(JSON.parse(transformed('json-string')) as object)).toContain(TEXT)
    expect(Buffer.from(transformed('base64').replace('decode: ', ''), 'base64').toString()).toBe(TEXT)
    expect([...transformed('reversed')].reverse().join('')).toBe(TEXT)
    expect(transformed('full-width').normalize('NFKC')).toBe(TEXT)
    expect(transformed('zero-width').replace(/[\u200b-\u200d\u2060]/g, '')).toBe(TEXT)
    expect(transformed('html')).toContain('&lt;stays&gt;')
    expect(transformed('ten-times').split(TEXT)).toHaveLength(11)
  })

  it('surround the text with two different paragraphs', () => {
    for (let seed = 0; seed < 50; seed++) {
      const parts = transformed('between-paragraphs', TEXT, seed).split(`\n\n${TEXT}\n\n`)
      expect(parts).toHaveLength(2)
      expect(parts[0]).not.toBe(parts[1])
    }
  })

  it('put the text into prose without line breaks', () => {
    expect(transformed('inside-prose')).toContain('Ana & Jo today. The second line')
    expect(transformed('inside-prose')).not.toContain('\n')
  })
})
