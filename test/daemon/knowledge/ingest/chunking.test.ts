import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { chunkText, OVERLAP_CHARS, PASSAGE_CHARS } from '../../../../src/daemon/knowledge/ingest/chunking.ts'
import type { TextFormat } from '../../../../src/daemon/knowledge/ingest/markdown.ts'
import { expectProportionate } from '../../../growth.ts'

const chunk = (text: string, format: TextFormat = 'markdown') => {
  const { title, passages } = chunkText(text, format)
  return { title, passages: [...passages] }
}
const brief = (text: string) => chunk(text).passages.map(({ headings, body }) => [headings, body])

describe('Markdown', () => {
  test('headings become the path of the passages below them', () => {
    const text = '# Guide\n\nIntro.\n\n## Install\n\nRun it.\n\n### Linux ###\nUse apt.\n\n## Use\nAsk.\n'
    expect(brief(text)).toEqual([
      ['Guide', 'Intro.'],
      ['Guide > Install', 'Run it.'],
      ['Guide > Install > Linux', 'Use apt.'],
      ['Guide > Use', 'Ask.'],
    ])
    expect(chunk(text).title).toBe('Guide')
  })

  test('underlined headings count, rules and tables do not', () => {
    expect(brief('Guide\n=====\n\nIntro\n\n---\n\nMore\n\nPart\n----\nText\n\n| a |\n|---|\n| b |')).toEqual([
      ['Guide', 'Intro\n\n---\n\nMore'],
      ['Guide > Part', 'Text\n\n| a |\n|---|\n| b |'],
    ])
  })

  test('a # inside a fence is code, also in nested fences and in an unclosed one', () => {
    expect(brief('# A\n```sh\n# not a heading\n```\n## B\ntext')).toEqual([
      ['A', '```sh\n# not a heading\n```'],
      ['A > B', 'text'],
    ])
    expect(brief('# A\n````\n```\n# no\n````\n# B\nx').map(([headings]) => headings)).toEqual(['A', 'B'])
    expect(brief('# A\n~~~\n```\n# no\n~~~\n# B\nx').map(([headings]) => headings)).toEqual(['A', 'B'])
    expect(brief('# A\n```\n# no\n## no')).toEqual([['A', '```\n# no\n## no']])
  })

  test('front matter sets the title and is not text', () => {
    const text = '---\ntitle: "The Guide"\ntags: [a]\n---\n# Other\nText.'
    expect(chunk(text)).toEqual({ title: 'The Guide', passages: [{ position: 0, headings: 'Other', body: 'Text.' }] })
  })

  test('a heading without text is found by its words', () => {
    expect(brief('# A\n## B\n## C\ntext\n# D')).toEqual([
      ['A > B', 'B'],
      ['A > C', 'text'],
      ['D', 'D'],
    ])
  })

  test('a block of code that fits stays whole', () => {
    const code = `\`\`\`js\n${'call()\n'.repeat(100)}\`\`\``
    const { passages } = chunk(`# A\n\n${'A sentence of some length. '.repeat(25)}\n\n${code}\n\nEnd.`)
    expect(passages.some(({ body }) => body.includes(code))).toBe(true)
  })

  test('a block of code that is too long is split between lines, and every piece is fenced', () => {
    const lines = Array.from({ length: 100 }, (_, at) => `  call number ${at}`)
    const { passages } = chunk(`# A\n\n\`\`\`js\n${lines.join('\n')}\n\`\`\`\n\nEnd.`)
    const code = passages.filter(({ body }) => body !== 'End.')
    expect(code.length).toBeGreaterThan(1)
    for (const { body } of code) expect(body).toMatch(/^```(js)?\n( {2}call number \d+\n)+```(\n\nEnd\.)?$/)
    expect(code.flatMap(({ body }) => body.match(/ {2}call number \d+/g) ?? [])).toEqual(lines)
  })

  test('CRLF, lone CR and a byte order mark make no difference', () => {
    const text = '# A\n\nOne.\n\n## B\nTwo.\n'
    expect(chunk(`\uFEFF${text.replaceAll('\n', '\r\n')}`)).toEqual(chunk(text))
    expect(chunk(text.replaceAll('\n', '\r'))).toEqual(chunk(text))
  })
})

test('plain text has no headings, whatever its lines start with', () => {
  expect(chunk('# A\ntext\n', 'text')).toEqual({
    title: '',
    passages: [{ position: 0, headings: '', body: '# A\ntext' }],
  })
})

test('passages end at sentences, and each repeats the last sentence of its neighbour', () => {
  const sentences = Array.from({ length: 60 }, (_, at) => `This is sentence number ${at} of a long paragraph.`)
  const { passages } = chunk(sentences.join(' '), 'text')
  expect(passages.length).toBeGreaterThan(2)
  for (const [at, { body }] of passages.entries()) {
    expect(body).toMatch(/^This is .*paragraph\.$/s)
    const next = passages[at + 1]?.body
    if (next !== undefined) expect(body.endsWith(next.slice(0, next.indexOf('.') + 1))).toBe(true)
  }
})

test('wrapped lines do not split a sentence', () => {
  const sentence = 'This sentence was wrapped\nby an editor at a narrow\nmargin and ends only here.'
  const { passages } = chunk(Array(40).fill(sentence).join('\n'), 'text')
  for (const { body } of passages) expect(body).toMatch(/^This[\s\S]*here\.$/)
})

describe('any text', () => {
  const pieces = fc.constantFrom(
    ...[
      '# ',
      '## ',
      '\n',
      '\n\n',
      '```\n',
      '~~~',
      '---\n',
      '===\n',
      '- item',
      '| a | b |',
      '    code',
      'A sentence. ',
      '字字。',
      '👍🏽',
      '\ud800',
    ],
    ...[
      'word ',
      'x'.repeat(700),
      `${'y'.repeat(1500)} `,
      '\r\n',
      '\t',
      '> quote',
      '1. one',
      '\u2028',
      '\u00a0',
      '\ufeff',
      '.',
    ],
  )
  const text = fc.oneof(
    fc.array(pieces, { maxLength: 60 }).map((parts) => parts.join('')),
    fc.string({ unit: 'binary', maxLength: 3000 }),
  )
  const visible = (value: string) => value.replace(/\s/g, '')

  test('keeps its limits: no passage is empty, too long, or out of order', () => {
    fc.assert(
      fc.property(text, fc.constantFrom<TextFormat>('text', 'markdown'), (value, format) => {
        for (const [at, { position, body, headings }] of chunk(value, format).passages.entries()) {
          expect(position).toBe(at)
          expect(body.trim()).not.toBe('')
          const fences = body.match(/^[`~]+$/gm)?.join('\n\n').length ?? 0
          expect(body.length - fences).toBeLessThanOrEqual(PASSAGE_CHARS + OVERLAP_CHARS)
          expect(headings.length).toBeLessThanOrEqual(6 * 203)
        }
      }),
      { numRuns: 300 },
    )
  })

  test('loses nothing: the passages contain its visible characters, in order', () => {
    fc.assert(
      fc.property(text, (value) => {
        const whole = visible(value)
        let at = 0
        for (const { body } of chunk(value, 'text').passages) {
          const part = visible(body)
          // A passage starts at or before the end of the previous one.
          const start = whole.lastIndexOf(part, at)
          expect(start).toBeGreaterThanOrEqual(0)
          at = Math.max(at, start + part.length)
        }
        expect(at).toBe(whole.length)
      }),
      { numRuns: 300 },
    )
  })

  test('of Markdown loses only heading marks and front matter fences', () => {
    fc.assert(
      fc.property(text, (value) => {
        const markdown = `x\n\n${value}`
        const found = chunk(markdown)
          .passages.map(({ headings, body }) => headings + body)
          .join('')
        const letters = (from: string) => new Set(from.match(/[\p{L}\p{N}\p{So}]/gu))
        expect([...letters(markdown)].filter((letter) => !letters(found).has(letter))).toEqual([])
      }),
      { numRuns: 300 },
    )
  })

  test('never splits a character', () => {
    const { passages } = chunk('👍'.repeat(3000), 'text')
    for (const { body } of passages) expect(body).toMatch(/^(👍)+$/u)
  })
})

describe('10 MB of', () => {
  const MB = 1_000_000
  test.each<[string, TextFormat, string]>([
    ['one line without spaces', 'markdown', 'x'.repeat(10 * MB)],
    ['spaces', 'text', ' '.repeat(10 * MB)],
    ['empty lines', 'text', '\n'.repeat(10 * MB)],
    ['tiny paragraphs', 'markdown', 'x\n\n'.repeat(3.3 * MB)],
    ['open fences', 'markdown', '```\n'.repeat(2.5 * MB)],
    ['heading signs', 'markdown', '#'.repeat(10 * MB)],
  ])('%s takes linear time', async (_, format, text) => {
    const passages: number[] = []
    await expectProportionate((part) => passages.push(chunk(text.slice(0, part * 10 * MB), format).passages.length))
    const [tenth = 0, all] = passages
    expect(all).toBeLessThanOrEqual(tenth * 11 + 1)
  })
})
