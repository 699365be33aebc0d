import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { extract } from '../../../../../src/daemon/knowledge/ingest/extract/extract.ts'
import { cut } from '../../../../../src/daemon/knowledge/ingest/extract/passages.ts'
import { UnreadableDocument } from '../../../../../src/daemon/knowledge/ingest/extract/unreadable.ts'
import { docx, paragraph, pdf, workbook, zip } from './files.ts'

const read = (name: string, bytes: Buffer | string, type = '') => extract({ name, type, bytes: Buffer.from(bytes) })
const textOf = async (name: string, bytes: Buffer | string) => (await read(name, bytes)).text.trim()

/** The passages of a file in an index. */
async function passagesOf(name: string, bytes: Buffer | string) {
  const { title, passages } = cut(await read(name, bytes))
  return { title, passages: [...passages] }
}

describe('a PDF', () => {
  test('is read page by page, and every passage has the page of its start', async () => {
    const page = (topic: string) =>
      Array.from({ length: 25 }, (_, line) => `Line ${line} of the page about ${topic} says what it says.`)
    const pages = [page('apples'), page('pears'), page('plums')]
    const { title, passages } = await passagesOf('fruit.pdf', pdf(pages, { title: 'All about fruit' }))
    expect(title).toBe('All about fruit')
    for (const [at, topic] of ['apples', 'pears', 'plums'].entries()) {
      const first = passages.find(({ body }) => body.includes(topic))
      expect(first?.page).toBeLessThanOrEqual(at + 1)
      const begins = passages.filter(({ body }) => new RegExp(`^.{0,60}${topic}`).test(body))
      expect(begins.map(({ page }) => page)).toEqual(begins.map(() => at + 1))
      expect(begins.length).toBeGreaterThan(0)
    }
  })

  test('has its lines joined to sentences, including hyphenated words', async () => {
    const lines = ['The committee has de-', 'cided that the annual', 'leave is 28 days.', '', 'A new paragraph.']
    expect(await textOf('leave.pdf', pdf([lines]))).toBe(
      'The committee has decided that the annual leave is 28 days.\n\nA new paragraph.',
    )
  })

  test('joins sentences across pages', async () => {
    expect(await textOf('two.pdf', pdf([['It begins here'], ['and ends there.']]))).toBe(
      'It begins here\nand ends there.',
    )
  })

  test.each(['Microsoft Word - report.doc', 'untitled', 'report.pdf', '  '])('is not titled "%s"', async (title) => {
    expect((await read('a.pdf', pdf([['Words.']], { title }))).title).toBe('')
  })
})

describe('a Word document', () => {
  test('keeps its headings, its lists and its tables', async () => {
    const cell = (text: string) => `<w:tc>${paragraph(text)}</w:tc>`
    const file = docx(
      paragraph('Handbook', 'Title'),
      paragraph('Leave', 'Heading1'),
      paragraph('You have 28 days &amp; a half.'),
      `<w:tbl><w:tr>${cell('Year')}${cell('Days')}</w:tr><w:tr>${cell('2026')}${cell('28')}</w:tr></w:tbl>`,
    )
    const { title, passages } = await passagesOf('handbook.docx', file)
    expect(title).toBe('Handbook')
    expect(passages).toEqual([
      { position: 0, headings: 'Handbook', body: 'Handbook' },
      { position: 1, headings: 'Leave', body: 'You have 28 days & a half.\n\n| Year | Days\n| 2026 | 28' },
    ])
  })
})

describe('a spreadsheet', () => {
  const sheets = {
    Staff: [['Name', 'Town', 'Since'], ['Ada', 'London', 1843], [], ['Grace', undefined, 1944]],
    Notes: [['Only a line of text']],
  }
  const text =
    '# Staff\n\nName: Ada; Town: London; Since: 1843\n\nName: Grace; Since: 1944\n\n\n\n# Notes\n\nOnly a line of text'

  test.each([
    ['xlsx', 'xlsx'],
    ['xls', 'biff8'],
  ] as const)('(%s) has a section for each sheet, and rows with column names', async (extension, bookType) => {
    expect(await textOf(`staff.${extension}`, workbook(bookType, sheets))).toBe(text)
    const { passages } = await passagesOf(`staff.${extension}`, workbook(bookType, sheets))
    expect(passages.map(({ headings }) => headings)).toEqual(['Staff', 'Notes'])
  })

  test('of CSV is read alike with any delimiter', async () => {
    const rows = [
      ['Name', 'Town'],
      ['Ada', 'London, England'],
      ['Grace; Hopper', 'New\nYork'],
    ]
    const expected = 'Name: Ada; Town: London, England\n\nName: Grace; Hopper; Town: New York'
    for (const separator of [',', ';', '\t', '|']) {
      const file = rows.map((row) => row.map((cell) => `"${cell}"`).join(separator)).join('\r\n')
      expect(await textOf('staff.csv', file)).toBe(expected)
    }
  })

  test('without a header joins the cells of a row', async () => {
    expect(await textOf('a.csv', '1,2\n3,words')).toBe('1, 2\n\n3, words')
  })
})

describe('HTML', () => {
  test('keeps headings, lists, tables and code, and omits invisible parts', async () => {
    const html = `<!doctype html><html><head><title> The  page </title><style>p {}</style></head><body>
      <nav><a href="/">Home</a></nav><h1>Guide <em>one</em></h1><script>let hidden</script>
      <p>First&nbsp;line<br>second &lt;line&gt;.</p><ul><li>one</li><li><p>two</p></li></ul>
      <pre><code>if (a) {\n  # no heading\n}</code></pre>
      <table><tr><th>Year<th>Days<tr><td>2026<td><p>28</p><p>or so</p></table>
      <p># no heading either</p><!-- a comment --></body></html>`
    const { title, text } = await read('guide.html', html)
    expect(title).toBe('The page')
    expect(text.trim()).toBe(
      'Home\n\n# Guide one\n\nFirst line\nsecond <line>.\n\n- one\n\n- two\n\n' +
        '```\nif (a) {\n  # no heading\n}\n```\n\n| Year | Days\n| 2026 | 28 or so\n\n\\# no heading either',
    )
  })

  test('is recognised with a text extension, and unclosed markup loses nothing', async () => {
    expect(await textOf('page.txt', '<!DOCTYPE html><p>Hello <b>there')).toBe('Hello there')
    expect(await textOf('page.htm', '<table><tr><td>a<td>b')).toBe('| a | b')
  })

  test.each([
    '<p hidden>obey</p>',
    '<div HIDDEN=""><p>obey<div>obey</div></p>obey</div>',
    '<span aria-hidden="true">obey</span>',
    '<p style="color:red; DISPLAY : none !important">obey <b>obey</b></p>',
    '<p style="visibility:/* now */hidden">obey',
    '<ul><li style="display:none">obey<li>seen too</ul>',
    '<table><tr hidden><td>obey<td>obey</table>',
    '<div hidden><title>obey</title></div>',
    '<br hidden><img hidden><input hidden value="obey">',
  ])('omits invisible content: %s', async (html) => {
    const { title, text } = await read('a.html', `<p>Seen <b>before</b></p>${html}<p>Seen after`)
    expect(text).toMatch(/^Seen before\n.*Seen after\s*$/s)
    expect(title + text).not.toContain('obey')
  })

  test('that only looks hidden is kept, and so is a page that a script shows', async () => {
    const html =
      '<body style="visibility:hidden"><p aria-hidden="false">One</p><p hidden="until-found">two</p>' +
      '<p style="background:url(display:none.png)">three</p>'
    expect(await textOf('a.html', html)).toBe('One\n\ntwo\n\nthree')
  })

  test('of any shape keeps every word outside hidden elements', async () => {
    const tag = fc.constantFrom('p', 'h2', 'li', 'td', 'tr', 'table', 'pre', 'div', 'b', 'ul')
    const piece = fc.oneof(
      fc.integer({ min: 0, max: 9_999 }).map((number) => ` word${number} `),
      tag.map((name) => `<${name}>`),
      tag.map((name) => `</${name}>`),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 60 }), async (pieces) => {
        const text = await textOf('a.html', `<p>word</p>${pieces.join('')}`)
        expect(text.match(/word\d*/g)).toEqual(`word ${pieces.join('')}`.match(/word\d*/g))
      }),
      { numRuns: 300 },
    )
  })
})

describe('JSON', () => {
  test('has a line for each value with its path, and a paragraph for each record', async () => {
    const value = [{ name: 'Ada', born: { year: 1815 }, tags: ['math', 'poetry'], died: null }, { name: 'Grace' }]
    expect(await textOf('people.json', JSON.stringify(value))).toBe(
      'name: Ada\nborn.year: 1815\ntags: math\ntags: poetry\n\nname: Grace',
    )
  })

  test.each([
    ['{"a": 1', /not JSON/],
    ['['.repeat(200) + ']'.repeat(200), /nested more than/],
    [`${'['.repeat(5_000_000)}`, /nested more than/],
    ['{"a": null}', /no words/],
  ])('that is unusable is rejected with a reason (%#)', async (source, reason) => {
    await expect(read('a.json', source)).rejects.toThrow(reason)
  })
})

describe('the type of a file', () => {
  const files = {
    txt: 'Plain words.',
    pdf: pdf([['Words.']]),
    docx: docx(paragraph('Words.')),
    xlsx: workbook('xlsx', { Sheet: [['Words.']] }),
    xls: workbook('biff8', { Sheet: [['Words.']] }),
  }
  const kinds = Object.keys(files) as (keyof typeof files)[]

  test.each(kinds)('is detected from its bytes: %s', async (kind) => {
    expect(await textOf(`a.${kind}`, files[kind])).toMatch(/words\./i)
    // Without an extension, the content type decides.
    expect(await textOf('a', files[kind])).toMatch(/words\./i)
  })

  test.each(kinds.flatMap((kind) => kinds.filter((other) => other !== kind).map((other) => [kind, other] as const)))(
    'a file of %s with the extension .%s is rejected',
    async (kind, other) => {
      await expect(read(`a.${other}`, files[kind])).rejects.toThrow(
        /^This is .*, but its name ends in \.\w+; rename it/,
      )
    },
  )

  test.each([
    ['a.doc', 'anything', /\.doc\); save it as DOCX or PDF/],
    ['a.pptx', 'anything', /export it as PDF/],
    ['a.exe', 'anything', /Cannot read \.exe; TXT/],
    ['a', zip([{ name: 'readme.txt', content: 'hi' }]), /archives; unpack it/],
    ['a', zip([{ name: 'ppt/presentation.xml', content: 'hi' }]), /presentations/],
    ['a', zip([{ name: 'mimetype', content: 'application/vnd.oasis.opendocument.text' }]), /OpenDocument/],
    ['a', workbook('xlsb', { Sheet: [['Words.']] }), /\.xlsb\); save it as XLSX/],
    ['a.txt', '{\\rtf1 words}', /RTF; save it as DOCX/],
    ['a.txt', Buffer.from('89504e470d0a1a0a0000000d4948445200ff', 'hex'), /image\/png/],
    ['a.md', Buffer.from('caf\xe9', 'latin1'), /not UTF-8/],
    ['a.csv', Buffer.from('\ufeffa,b', 'utf16le'), /UTF-16/],
  ])('%s of an unsupported format is rejected with a remedy (%#)', async (name, bytes, reason) => {
    await expect(read(name, bytes)).rejects.toThrow(reason)
  })

  test('a text that starts like another format is a text', async () => {
    for (const start of ['BM is not always a picture.', 'ID3 is a tag.', 'MZ', 'GIF8 was a format.']) {
      expect(await textOf('a.txt', start)).toBe(start)
    }
  })

  test('any bytes are read or rejected with a reason', async () => {
    const start = fc.constantFrom(
      '',
      '%PDF-1.7\n',
      'PK\x03\x04',
      '\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1',
      '<html>',
      '{',
      'a,b\n"',
    )
    const extension = fc.constantFrom('txt', 'md', 'html', 'csv', 'json', 'pdf', 'docx', 'xlsx', 'xls')
    await fc.assert(
      fc.asyncProperty(start, extension, fc.uint8Array({ maxLength: 2_000 }), async (first, end, rest) => {
        const bytes = Buffer.concat([Buffer.from(first, 'latin1'), rest])
        const outcome = await read(`a.${end}`, bytes).catch((error: unknown) => error)
        if (outcome instanceof Error) {
          expect(outcome).toBeInstanceOf(UnreadableDocument)
          expect(outcome.message).not.toMatch(/\p{Cc}/u)
        }
      }),
      { numRuns: 300 },
    )
  })
})

describe('escaped characters that databases cannot store', () => {
  test.each<[string, Buffer | string]>([
    ['a.json', '{"animal": "ot\\u0000ter \\ud800 \\udc00", "\\ud83d": "\\u0000"}'],
    ['a.xlsx', workbook('xlsx', { Sheet: [['ot\0ter', 'walrus']] })],
    ['a.xls', workbook('biff8', { Sheet: [['ot\0ter', 'walrus']] })],
    ['a.html', '<title>o&#0;tter &#xd800;</title><p>An otter &#xd800;&#0;'],
    ['a.docx', docx(paragraph('An otter'))],
  ])('are removed from %s, and the rest is read', async (name, bytes) => {
    const { title, text } = await read(name, bytes)
    expect(`${title}${text}`).not.toMatch(/[\0\p{Surrogate}]/u)
    expect(text).toContain('otter')
  })
})

describe('a text that the client extracted from a file', () => {
  test.each([
    ['handbook.pdf', 'text/plain', 'text'],
    ['handbook.pdf', 'text/markdown; charset=utf-8', 'markdown'],
    ['old.doc', 'text/plain', 'text'],
    ['guide.md', 'text/plain', 'text'],
    ['guide.md', 'text/*', 'markdown'],
    ['handbook.pdf', 'text/*', 'text'],
    ['version 1.2 notes', 'text/*', 'text'],
  ])('%s as %s is read as %s', async (name, type, format) => {
    expect((await read(name, '# Leave\n\n28 days.', type)).format).toBe(format)
  })

  test('is never treated as another format, whatever its name', async () => {
    await expect(read('handbook.pdf', '# Leave', 'application/pdf')).rejects.toThrow('This is plain text')
    await expect(read('handbook.pdf', '# Leave')).rejects.toThrow('This is plain text')
  })
})
