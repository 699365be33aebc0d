import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ChatPart, GroundingPassage, ProviderCall } from '../../../../../src/daemon/models/provider.ts'
import { localProvider } from '../../../../../src/daemon/models/providers/local/provider.ts'
import { countTokens } from '../../../../../src/daemon/platform/text/tokens.ts'
import { expectProportionate } from '../../../../growth.ts'

const passage = (number: number, text: string, headings = '', source = `doc-${number}.md`): GroundingPassage => ({
  number,
  source,
  headings,
  text,
})

function callOf(
  question: string,
  passages: readonly GroundingPassage[] | null,
  more: Partial<ProviderCall> = {},
): ProviderCall {
  return {
    model: 'extract',
    system: '',
    messages: [{ role: 'user', content: question }],
    grounding: passages && { index: 'handbook', passages },
    temperature: 0.7,
    maxTokens: 1000,
    stream: false,
    timeouts: { attemptMs: 1000, firstTokenMs: 1000, stallMs: 1000 },
    ...more,
  }
}

async function run(call: ProviderCall, signal = new AbortController().signal) {
  const batches: (readonly ChatPart[])[] = []
  for await (const batch of localProvider().chat(call, signal)) batches.push(batch)
  const parts = batches.flat()
  const text = parts.map((part) => (part.type === 'text' ? part.text : '')).join('')
  const ends = parts.filter((part) => part.type === 'end')
  expect(ends).toHaveLength(1)
  expect(parts.at(-1)).toBe(ends[0])
  return { batches, parts, text, end: ends[0] as Extract<ChatPart, { type: 'end' }> }
}
const answer = async (question: string, passages: readonly GroundingPassage[] | null) =>
  (await run(callOf(question, passages))).text

const GUIDE = [
  passage(
    1,
    'A webhook pushes events. After twenty failures in a row the endpoint is disabled. It can be enabled again.',
    'Guide > Webhooks',
  ),
  passage(2, 'Install it with npm:\n\n```sh\nnpm install -g aigw\n```\n\nThen start the daemon.', 'Guide > Install'),
  passage(3, '| Limit | Value |\n|---|---|\n| messages per request | 100 |\n| models in a chain | 3 |', 'Limits'),
  passage(4, 'Roles:\n\n- `admin` may do everything\n- `user` may chat\n\nMore is planned.', 'Access', 'doc-1.md'),
  passage(5, '知識庫可以回答問題。天氣很好。', '', 'doc-1.md'),
]

describe('local/extract', () => {
  test('quotes the best sentence with its number and lists its source', async () => {
    expect(await answer('When is an endpoint disabled?', GUIDE)).toBe(
      'The index "handbook" says:\n\n"After twenty failures in a row the endpoint is disabled." [1]\n\nSources:\n[1] doc-1.md, Webhooks',
    )
  })

  test.each([
    ['How do I install this?', '"Install it with npm:" [2]\n\n```\nnpm install -g aigw\n```'],
    ['How many messages per request?', '"messages per request · Value: 100" [3]'],
    ['What roles are there?', '"Roles:" [4]\n\n- "`admin` may do everything" [4]\n- "`user` may chat" [4]'],
    ['知識庫可以做什麼？', '"知識庫可以回答問題。" [5]'],
    ['installations', 'npm install -g aigw'],
    ['installing', 'npm install -g aigw'],
  ])('answers %j with the content of the passages', async (question, expected) => {
    expect(await answer(question, GUIDE)).toContain(expected)
  })

  test.each([
    ['resume rules', 'Le résumé suit des règles. Rules of a résumé are short.', 'Rules of a résumé are short.'],
    ['Straßen Zürich', 'Die Strassen von Zurich sind schmal.', 'Die Strassen von Zurich sind schmal.'],
    ['страницы отчёта', 'Страница отчета пуста.', 'Страница отчета пуста.'],
  ])('finds the words of a question as the search does: %s', async (question, text, expected) => {
    expect(await answer(question, [passage(1, text)])).toContain(expected)
  })

  test('states that it has no answer, and the location of the closest text', async () => {
    const text = await answer('What is the capital of France?', GUIDE)
    expect(text).toMatch(
      /^The index "handbook" contains no answer to this question\. The closest passages are in:\n\n\[1\] doc-1\.md/,
    )
    expect(text).not.toContain('"A webhook')
    expect(await answer('What is the capital of France?', [])).toBe(
      'The index "handbook" contains no answer to this question.',
    )
  })

  test('separate words in a question match compounds in the answer', async () => {
    const passages = [
      passage(1, 'The client reads the whole answer back.', 'Chat'),
      passage(2, 'A backup is a copy of the folder. Take one before an upgrade.', 'Operations'),
    ]
    const text = await answer('How do I back up the database?', passages)
    expect(text).toContain('"A backup is a copy of the folder." [2]')
    expect(text).not.toContain('reads the whole answer')
  })

  test('a question about terms missing from the passages has no answer', async () => {
    const passages = [passage(1, 'The providers openai and local are supported by aigw.'), ...GUIDE]
    expect(await answer('Does aigw support Windows?', passages)).toContain('contains no answer')
    expect(await answer('Is openai supported?', passages)).toContain('"The providers openai and local are supported')
  })

  test('further quotations must be answers too', async () => {
    const passages = [passage(1, 'Herons, otters and lemurs sleep.'), passage(2, 'Badgers and walruses swim.')]
    const question = 'Tell me about herons, otters, lemurs, badgers and walruses.'
    expect(await answer(question, passages)).not.toContain('Badgers')
    expect(await answer('Tell me about badgers and walruses.', passages)).toContain('Badgers')
  })

  test('without retrieval it describes what it can do', async () => {
    const text = await answer('Hello', null)
    expect(text).toContain('quoting documents')
    expect(text).toContain('`index`')
  })

  test('answers the last user turn', async () => {
    const messages = [
      { role: 'user' as const, content: 'When is an endpoint disabled?' },
      { role: 'assistant' as const, content: 'Ask again.' },
      { role: 'user' as const, content: 'How do I install it?' },
    ]
    expect((await run(callOf('', GUIDE, { messages }))).text).toContain('npm install')
  })

  test('quotes plain text: without bold, links and badges of Markdown; list items stay whole', async () => {
    const text = [
      '[![build](https://x/y.svg)](https://x)',
      'See the [panda guide](docs/pandas.md) for **all** pandas.',
      '- **Pandas rest.** They do so often.',
      '- [Pandas](#pandas)',
    ].join('\n\n')
    const quoted = await answer('pandas', [passage(1, text)])
    expect(quoted).toContain('"See the panda guide for all pandas." [1]')
    expect(quoted).toContain('"Pandas rest. They do so often." [1]')
    expect(quoted).not.toMatch(/"Pandas" |https|\*\*/)
  })

  test.each(['****@a***.example', '**@e**.com', 'b**@a**.example'])(
    'a masked address keeps its asterisks: %s',
    async (mask) => {
      expect(await answer('Who is on call?', [passage(1, `On **call** is ${mask} today.`)])).toContain(
        `"On call is ${mask} today." [1]`,
      )
    },
  )

  test('a section about the question is quoted before others that only mention its words', async () => {
    const passages = [
      passage(1, 'Stop the gateway first. A pipe makes no backup.', 'Pipes'),
      passage(2, 'The daemon may run:\n\n```sh\nsqlite3 aigw.db .backup\n```', 'Operations > Back up the store'),
    ]
    expect(await answer('How do I make a backup?', passages)).toContain('"The daemon may run:" [2]\n\n```\nsqlite3')
  })

  test('a link to another page is quoted only if nothing better is found', async () => {
    const passages = [
      passage(1, 'See [backup and restore](backup.md).'),
      passage(2, 'A backup is a copy of two files.'),
    ]
    const quoted = await answer('What is a backup?', passages)
    expect(quoted).toContain('"A backup is a copy of two files." [2]')
    expect(quoted).not.toContain('"See')
  })

  test('code within a list is quoted without the indentation of the list', async () => {
    const text = '1. Restore the pandas:\n\n   ```sh\n   cp pandas /zoo\n     --all\n   ```'
    expect(await answer('How do I restore pandas?', [passage(1, text)])).toContain('```\ncp pandas /zoo\n  --all\n```')
  })

  test('quotes only documents that the response lists as its sources', async () => {
    const passages = ['a', 'b', 'c', 'd'].map((name, at) => passage(at + 1, `Topic ${name}.`))
    passages[3] = passage(4, 'Pandas eat bamboo.')
    expect(await answer('What do pandas eat?', passages)).toContain('contains no answer')
  })

  test('numbers of one section share a line in the list of sources', async () => {
    const passages = [
      passage(1, 'Red pandas climb.', 'Pandas', 'zoo.md'),
      passage(2, 'Red pandas sleep.', 'Pandas', 'zoo.md'),
    ]
    expect(await answer('red pandas', passages)).toContain('Sources:\n[1][2] zoo.md, Pandas')
  })

  test('a sentence that two passages share is quoted once', async () => {
    const text = await answer('red pandas', [
      passage(1, 'Red pandas climb. Fine.'),
      passage(2, 'Red pandas climb. Good.'),
    ])
    expect(text.match(/Red pandas climb\./g)).toHaveLength(1)
  })

  test('code that contains fences cannot leave its own fence', async () => {
    const text = await answer('pandas example', [passage(1, 'An example of pandas:\n\n~~~\n```\npandas\n```\n~~~')])
    expect(text).toContain('````\n```\npandas\n```\n````')
  })

  test('a stream has the same text as a complete answer, word by word in several batches', async () => {
    const whole = await run(callOf('When is an endpoint disabled?', GUIDE))
    const stream = await run(callOf('When is an endpoint disabled?', GUIDE, { stream: true }))
    expect(stream.text).toBe(whole.text)
    expect(stream.end).toEqual(whole.end)
    expect(whole.batches).toHaveLength(1)
    expect(stream.batches.length).toBeGreaterThan(1)
    for (const part of stream.parts) if (part.type === 'text') expect(part.text.trim()).toMatch(/^\S+$/)
  })

  test('its own token count is exact at the limit, and the finish reason is length', async () => {
    for (const maxTokens of [1, 5, 17]) {
      const { text, end } = await run(callOf('When is an endpoint disabled?', GUIDE, { maxTokens, stream: true }))
      expect(end).toMatchObject({ outcome: 'length', nativeFinishReason: 'length' })
      expect(text.length).toBeGreaterThan(0)
      expect(end.usage?.outputTokens).toBeLessThanOrEqual(maxTokens)
    }
    const { end } = await run(callOf('When is an endpoint disabled?', GUIDE, { system: 'Be brief.' }))
    expect(end).toMatchObject({ outcome: 'complete', nativeFinishReason: 'stop' })
    expect(end.usage).toMatchObject({
      estimated: false,
      inputTokens: countTokens('Be brief.') + countTokens('When is an endpoint disabled?'),
      reasoningTokens: 0,
    })
  })

  test('stops at the next batch when the request is aborted', async () => {
    const controller = new AbortController()
    const batches = localProvider().chat(
      callOf('When is an endpoint disabled?', GUIDE, { stream: true }),
      controller.signal,
    )
    const iterator = batches[Symbol.asyncIterator]()
    expect((await iterator.next()).done).toBe(false)
    controller.abort()
    await expect(iterator.next()).rejects.toMatchObject({
      name: 'ProviderError',
      reason: 'aborted',
      outcome: 'aborted',
    })
    await expect(run(callOf('a', GUIDE), AbortSignal.abort())).rejects.toMatchObject({ reason: 'aborted' })
  })

  test('any question and any passages get an answer, the same one every time', async () => {
    const pieces = fc.constantFrom(
      'word ',
      'panda. ',
      '```\n',
      '| a |',
      '|---|',
      '- ',
      '\n',
      '\n\n',
      '# ',
      ': ',
      '字。',
      '👍',
      '\ud800',
      '[](',
      ')',
      '![x](y)',
      '"',
      '`',
    )
    const text = fc.array(pieces, { maxLength: 40 }).map((parts) => parts.join(''))
    await fc.assert(
      fc.asyncProperty(text, fc.array(text, { maxLength: 4 }), async (question, texts) => {
        const call = callOf(
          question,
          texts.map((value, at) => passage(at + 1, value)),
          { stream: true },
        )
        const first = await run(call)
        expect(first.text.trim()).not.toBe('')
        expect((await run(call)).text).toBe(first.text)
      }),
      { numRuns: 200 },
    )
  })

  test.each([
    ['one word', 'x'.repeat(262_144)],
    ['many words', Array.from({ length: 40_000 }, (_, at) => `word${at}`).join(' ')],
    ['Chinese', '漢字'.repeat(43_000)],
    ['brackets', '[]('.repeat(87_000)],
    ['spaces', ' '.repeat(262_144)],
  ])('a question of 256 KB of %s over hostile passages takes linear time', async (_, question) => {
    const passages = [
      '[]()'.repeat(300),
      '['.repeat(1200),
      '<'.repeat(1200),
      '|'.repeat(1200),
      '- a\n'.repeat(300),
      '!['.repeat(600),
      'x. '.repeat(400),
      '`'.repeat(1200),
    ]
    const found = passages.map((value, at) => passage(at + 1, value))
    await expectProportionate((part) => run(callOf(question.slice(0, question.length * part), found)))
  })
})
