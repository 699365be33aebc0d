import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { codeBlocksIn } from '../../../../src/cli/commands/chat/fence.ts'
import { createMarkdown } from '../../../../src/cli/commands/chat/markdown.ts'
import { createPainter } from '../../../../src/cli/output/colour.ts'
import { textWidth, wrapLine } from '../../../../src/cli/output/text-width.ts'

const plain = await createPainter(false)
const styled = await createPainter(true)

async function render(chunks: string[], { painter = plain, width = 80 } = {}): Promise<string> {
  const markdown = await createMarkdown({ painter, width })
  return chunks.map((chunk) => markdown.push(chunk)).join('') + markdown.end()
}

const SAMPLE = `# Leave *days*

You have **28** \`days\`, see [the policy](https://example.com/p).
They carry over.

1. ask
1. wait
   - in line
   - patiently
1. [x] go

Then
---
| who | days |
|-----|-----:|
| Ada | 28   |
| 日本 | 5 |

> quoted
> twice

\`\`\`sh
ls   # *not* emphasis

\`\`\`
* last
***
`

describe('Markdown on a terminal', () => {
  test('reads well without any style', async () => {
    expect(await render([SAMPLE])).toBe(`Leave days

You have 28 days, see the policy (https://example.com/p).
They carry over.

1. ask
2. wait
   • in line
   • patiently
3. [x] go

Then

who   days
────  ────
Ada     28
日本     5

│ quoted
│ twice

\`\`\`sh
ls   # *not* emphasis

\`\`\`

• last

────────────────────────────────────────
`)
  })

  test('has styles that end where they began', async () => {
    expect(await render(['# A\n\n**b** *i* `c` ~~d~~ <b>h</b>'], { painter: styled })).toBe(
      '\x1b[4m\x1b[1mA\x1b[22m\x1b[24m\n\n\x1b[1mb\x1b[22m \x1b[3mi\x1b[23m \x1b[36mc\x1b[39m \x1b[9md\x1b[29m <b>h</b>\n',
    )
  })

  test('is the same however the answer is cut into pieces', async () => {
    const markup = fc.string({
      unit: fc.constantFrom(
        'a',
        ' ',
        '\n',
        '\n\n',
        '- ',
        '1. ',
        '# ',
        '> ',
        '```\n',
        '|',
        '|-|-|\n',
        '**',
        '`',
        '---\n',
        '  ',
        '[x](y)',
      ),
      maxLength: 60,
    })
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(fc.constant(SAMPLE), markup),
        fc.array(fc.integer({ min: 1, max: 20 })),
        async (text, sizes) => {
          const chunks: string[] = []
          let rest = text
          for (const size of sizes) {
            chunks.push(rest.slice(0, size))
            rest = rest.slice(size)
          }
          expect(await render([...chunks, ...rest])).toBe(await render([text]))
        },
      ),
      { numRuns: 200 },
    )
  })

  test('shows every word of the answer', async () => {
    const line = fc.tuple(fc.constantFrom('', '- ', '2. ', '# ', '> ', '    ', '~~~\n', '| '), fc.nat({ max: 999 }))
    await fc.assert(
      fc.asyncProperty(fc.array(line, { maxLength: 30 }), async (lines) => {
        const words = lines.map((_, at) => `word${at}x`)
        const text = lines.map(([start], at) => `${start}${words[at]}`).join('\n')
        const shown = await render([text], { width: 20 })
        for (const word of words) expect(shown).toContain(word)
      }),
      { numRuns: 100 },
    )
  })

  test('contains no escape sequence of the model', async () => {
    const hostile = fc.string({
      unit: fc.constantFrom('\x1b', '[', ']', '0;', 'm', '\x07', '\x9b', '\r', '\n', 'a', '*', '`', '- '),
    })
    await fc.assert(
      fc.asyncProperty(hostile, async (text) => {
        expect(await render([text])).not.toMatch(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/)
      }),
    )
  })

  test('shows a block as soon as it is complete, code and items line by line', async () => {
    const markdown = await createMarkdown({ painter: plain, width: 80 })
    expect(markdown.push('Some words.')).toBe('')
    expect(markdown.push('\n\n')).toBe('Some words.\n')
    expect(markdown.push('- one\n- t')).toBe('')
    expect(markdown.push('wo\n')).toBe('\n• one\n')
    expect(markdown.push('```js\n')).toBe('• two\n\n```js\n')
    expect(markdown.push('let a\n')).toBe('let a\n')
    expect(markdown.push('```\n# T')).toBe('```\n')
    expect(markdown.push('\n')).toBe('\nT\n')
    expect(markdown.end()).toBe('')
  })

  test.each([
    ['quotes', '>'.repeat(20_000)],
    ['lists', '- '.repeat(9_000)],
    ['emphasis', '_a_'.repeat(3_000)],
    ['one paragraph', 'word word word\n'.repeat(20_000)],
    ['quoted lines', '> _a_ *b* [c\n'.repeat(2_000)],
    ['items in an item', `- a\n${'  - _a_\n'.repeat(900)}`],
  ])('takes what is out of proportion as it is: %s', async (_, text) => {
    const markdown = await createMarkdown({ painter: plain, width: 80 })
    let shown = ''
    for (const line of text.split(/(?<=\n)/)) shown += markdown.push(line)
    shown += markdown.end()
    expect(shown.length).toBeGreaterThan(text.length / 3)
  })

  test('gives rows their own lines where a table is too wide', async () => {
    const table = '| name | what |\n|--|--|\n| a | some long words here |\n| b | more |\n'
    expect(await render([table], { width: 20 })).toBe('name: a\nwhat: some long words here\n─\nname: b\nwhat: more\n')
  })

  test('wraps prose between words', async () => {
    expect(await render(['- one two three four\n'], { width: 16 })).toBe('• one two three\n  four\n')
    expect(wrapLine('\x1b[1maa bb\x1b[22m cc', 5)).toEqual(['\x1b[1maa bb\x1b[22m', 'cc'])
    expect(wrapLine('averylongword x', 5)).toEqual(['averylongword', 'x'])
    expect(['日本', 'e\u0301', '\x1b[1mab\x1b[22m', '👍', ''].map(textWidth)).toEqual([4, 1, 2, 2, 0])
  })
})

const FENCE = '`'.repeat(12)

describe('the code blocks of an answer', () => {
  test('are exact, without their fences and the indentation of these', () => {
    const text = 'Hi\n```sh\r\nls\t-l \r\n```\n1. x\n   ~~~\n   a\n     b\n   ~~~\n````\n```\n````\nInline ``` no ```\n'
    expect(codeBlocksIn(text)).toEqual(['ls\t-l \r\n', 'a\n  b\n', '```\n'])
  })

  test('are none where the last one is cut', () => {
    expect(codeBlocksIn('```sh\nrm -rf /tmp/')).toEqual([])
    expect(codeBlocksIn('```\na\n```\n```\nb\n')).toEqual(['a\n'])
  })

  test('hold any code there is', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom('a', ' ', '\n', '\r\n', '`', '~') }), (code) => {
        const block = `x${code}\n`
        fc.pre(!block.includes(FENCE))
        expect(codeBlocksIn(`${FENCE}\n${block}${FENCE}\n`)).toEqual([block])
      }),
    )
  })
})
