import { mkdir, mkdtemp, rm, symlink, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { collectDocuments, distinctDocuments } from '../../../src/cli/commands/indexes/documents.ts'
import {
  type FakeGateway,
  flatError,
  json,
  KEY,
  type Received,
  readMultipart,
  type Script,
  startFakeGateway,
  trainResult,
} from '../fake-gateway.ts'
import { type CliOptions, runCli } from '../run-cli.ts'

const TRAIN = 'POST /api/external/indexes/handbook/train'

let gateway: FakeGateway
let folder: string
beforeEach(async () => {
  gateway = await startFakeGateway()
  folder = await mkdtemp(join(tmpdir(), 'aigw-cli-'))
})
afterEach(async () => {
  await gateway.close()
  await rm(folder, { recursive: true })
})

const indexes = (words: string[], options: CliOptions = {}) =>
  runCli(['indexes', ...words], { ...options, env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: KEY } })

/** What a document is called: the way to it from the current folder. */
const nameOf = (...way: string[]) => relative(process.cwd(), join(folder, ...way)).replace(/^(\.\.\/)+/, '')

/** Writes files below the test's folder and answers with their paths. */
async function write(files: Record<string, string | Buffer>): Promise<string[]> {
  return Promise.all(
    Object.entries(files).map(async ([name, content]) => {
      const path = join(folder, name)
      await mkdir(dirname(path), { recursive: true })
      await writeFile(path, content)
      return path
    }),
  )
}

const sentNames = async (request: Received | undefined) =>
  request === undefined ? [] : (await readMultipart(request)).map(({ name }) => name)

/** The gateway's own answer to documents of which it can read none (a 400), some or all. */
const readable =
  (isReadable: (name: string) => boolean): Script =>
  async (request, response) => {
    const documents = (await readMultipart(request)).map(({ name }) =>
      isReadable(name)
        ? { name, status: 'indexed', chunks: 2 }
        : { name, status: 'failed', chunks: 0, error: 'not UTF-8' },
    )
    const none = documents.every(({ status }) => status === 'failed')
    const answer = none
      ? flatError(400, 'Invalid request', 'No document could be indexed.', { documents })
      : json(200, trainResult(documents))
    return answer(request, response)
  }

describe('aigw indexes add', () => {
  test('sends files under their paths, and notes the skipped ones', async () => {
    const docs = join(folder, 'docs')
    await mkdir(join(docs, 'a'), { recursive: true })
    await writeFile(join(docs, 'a', 'README.md'), '# One é')
    await writeFile(join(docs, 'b.txt'), 'Two')
    await writeFile(join(docs, 'empty.md'), '')
    await writeFile(join(docs, 'photo.jpg'), 'x')
    await writeFile(join(docs, '.secret.md'), 'x')
    await writeFile(join(docs, 'huge.md'), '')
    await truncate(join(docs, 'huge.md'), 52_428_801)
    await symlink('/etc/hostname', join(docs, 'link.md'))
    const { exitCode, stdout, stderr } = await indexes(['add', 'handbook', docs, '--fields', 'name,status'])
    expect({ exitCode, stdout }).toEqual({
      exitCode: 0,
      stdout: `name\tstatus\n${nameOf('docs/a/README.md')}\tindexed\n${nameOf('docs/b.txt')}\tindexed\n`,
    })
    for (const reason of ['empty', 'unsupported file type', 'hidden', 'larger than 50 MB', 'a symbolic link']) {
      expect(stderr).toContain(`: ${reason}\n`)
    }
    expect(stderr).toContain('handbook: 2 added (4 passages), 5 skipped.')
    const [request] = gateway.requests
    const files = request === undefined ? [] : await readMultipart(request)
    expect(files.map(({ field, name, type, content }) => [field, name, type, content.toString()])).toEqual([
      ['files', nameOf('docs/a/README.md'), 'text/markdown', '# One é'],
      ['files', nameOf('docs/b.txt'), 'text/plain', 'Two'],
    ])
    expect(request?.headers['content-length']).toBe(String(request?.body.length))
  })

  test('sends at most 20 files in one request and loses none', async () => {
    const names = Array.from({ length: 45 }, (_, at) => `file-${String(at).padStart(2, '0')}.md`)
    await Promise.all(names.map((name) => writeFile(join(folder, name), name)))
    const { stdout } = await indexes(['add', 'handbook', ...names.map((name) => join(folder, name)), '--field', 'name'])
    expect(stdout.trimEnd().split('\n')).toEqual(names.map((name) => nameOf(name)))
    const counts = await Promise.all(gateway.requests.map(async (request) => (await readMultipart(request)).length))
    expect(counts).toEqual([20, 20, 5])
  })

  test('keeps every character of a file name', async () => {
    const name = 'a "quoted" naïve 日本.md'
    await writeFile(join(folder, name), 'x')
    await indexes(['add', 'handbook', join(folder, name)])
    const [request] = gateway.requests
    const [file] = request === undefined ? [] : await readMultipart(request)
    expect(file?.name).toBe(nameOf(name).replaceAll('"', '%22'))
  })

  test('takes a document from stdin under the name it is given', async () => {
    await indexes(['add', 'handbook', '-', '--name', 'notes.txt'], { stdin: 'From a pipe' })
    const [request] = gateway.requests
    const [file] = request === undefined ? [] : await readMultipart(request)
    expect([file?.name, file?.type, file?.content.toString()]).toEqual(['notes.txt', 'text/plain', 'From a pipe'])
  })

  test('continues after an unreadable batch, shows every document and exits 1', async () => {
    const bad = Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`${String(at).padStart(2, '0')}.md`, 'x']))
    await write({ ...bad, 'z.md': 'good' })
    gateway.on(
      TRAIN,
      readable((name) => name.endsWith('z.md')),
    )
    const { exitCode, stdout, stderr } = await indexes(['add', 'handbook', folder, '--fields', 'status,error'])
    expect(exitCode).toBe(1)
    expect(stdout).toBe(`status\terror\n${'failed\tnot UTF-8\n'.repeat(20)}indexed\t\n`)
    expect(stderr).toContain('handbook: 1 added (2 passages), 20 failed.')
    expect(stderr).toContain('error: 20 of 21 documents could not be added')
  })

  test('exits 1 when the only document could not be read', async () => {
    const [path = ''] = await write({ 'bad.md': 'x' })
    gateway.on(
      TRAIN,
      readable(() => false),
    )
    const { exitCode, stdout, stderr } = await indexes(['add', 'handbook', path])
    expect(exitCode).toBe(1)
    expect(stdout).toContain(`${nameOf('bad.md')}\tfailed\t0\tnot UTF-8`)
    expect(stderr).toContain('error: 1 of 1 documents could not be added')
    expect(stderr).not.toContain('Invalid request')
  })

  test('a refusal of the request itself is no list of documents and exits 2', async () => {
    const paths = await write({ 'a.md': 'x' })
    gateway.on(TRAIN, flatError(400, 'Invalid request', 'Malformed.'))
    expect(await indexes(['add', 'handbook', ...paths])).toMatchObject({ exitCode: 2, stdout: '' })
  })

  test('files of one name in different folders stay different documents', async () => {
    const files = Array.from({ length: 25 }, (_, at) => `d${String(at).padStart(2, '0')}/README.md`)
    const paths = await write(Object.fromEntries(files.map((name) => [name, name])))
    expect((await indexes(['add', 'handbook', ...paths])).exitCode).toBe(0)
    const sent = (await Promise.all(gateway.requests.map(sentNames))).flat()
    expect(sent).toEqual(files.map((name) => nameOf(name)))
  })

  test('a document has one name, however its path is written', async () => {
    await write({ 'd/a.md': 'x', 'd/docs/b.md': 'x' })
    const way = relative(process.cwd(), folder)
    const namesOf = async (...paths: string[]) =>
      distinctDocuments((await collectDocuments(paths)).documents).map(({ name }) => name)
    const both = [nameOf('d/a.md'), nameOf('d/docs/b.md')]
    for (const path of [`${way}/d`, `${way}/./d/`, `${way}/d/docs/..`, join(folder, 'd')]) {
      expect(await namesOf(path)).toEqual(both)
    }
    expect(await namesOf(`./${way}/d/a.md`, join(folder, 'd/docs/b.md'))).toEqual(both)
    expect(await namesOf(join(folder, 'd'), join(folder, 'd/a.md'))).toEqual(both)
  })

  test('the current folder adds nothing to the names of what is in it', async () => {
    await write({ 'a.md': 'x', 'd/b.md': 'x' })
    const before = process.cwd()
    process.chdir(folder)
    try {
      for (const path of ['.', './', 'd/..', folder]) {
        const { documents } = await collectDocuments([path])
        expect(documents.map(({ name }) => name)).toEqual(['a.md', 'd/b.md'])
      }
      process.chdir('d')
      expect((await collectDocuments(['..'])).documents.map(({ name }) => name)).toEqual(['a.md', 'b.md'])
    } finally {
      process.chdir(before)
    }
  })

  test('two documents with one name are rejected before any request', async () => {
    const [path = ''] = await write({ 'a.md': 'x' })
    const words = ['add', 'handbook', path, '-', '--name', nameOf('a.md')]
    const { exitCode, stderr } = await indexes(words, { stdin: 'other' })
    expect(exitCode).toBe(2)
    expect(stderr).toContain(`two documents would be called '${nameOf('a.md')}'`)
    expect(gateway.requests).toEqual([])
  })

  test('a named file of an unsupported type is a usage error, and no request is sent', async () => {
    const good = await write({ 'good.md': 'x' })
    const bad = await write({ 'photo.jpg': 'x', 'empty.md': '' })
    const { exitCode, stderr } = await indexes(['add', 'handbook', ...good, ...bad])
    expect(exitCode).toBe(2)
    expect(stderr).toContain('photo.jpg: unsupported file type')
    expect(stderr).toContain('empty.md: empty')
    expect(gateway.requests).toEqual([])
  })

  test.each(['.md', '.mdown', '.txt', '.MD', '.html', '.pdf', '.docx', '.csv', '.json', '.xlsx', '.xls'])(
    'takes %s files',
    async (extension) => {
      const paths = await write({ [`a${extension}`]: 'x' })
      expect((await indexes(['add', 'handbook', ...paths])).exitCode).toBe(0)
    },
  )

  test('the error of a convertible file names the target format', async () => {
    const paths = await write({ 'a.doc': 'x', 'b.ods': 'x' })
    const { exitCode, stderr } = await indexes(['add', 'handbook', ...paths])
    expect(exitCode).toBe(2)
    expect(stderr).toContain('a.doc: save it as DOCX or PDF')
    expect(stderr).toContain('b.ods: save it as XLSX or CSV')
    expect(gateway.requests).toEqual([])
  })

  test('continues after a batch in which every file is too large', async () => {
    const paths = await write({ 'a.md': 'x' })
    const documents = [{ name: 'a.md', status: 'failed', chunks: 0, error: 'too large' }]
    gateway.on(TRAIN, flatError(413, 'File too large', 'No document could be indexed.', { documents }))
    const { exitCode, stdout } = await indexes(['add', 'handbook', ...paths, '--field', 'error'])
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: 'too large\n' })
  })

  test('a file that cannot be read is a mistake about that file, not about the gateway', async () => {
    const [path = ''] = await write({ 'a.md': 'x' })
    const [document] = (await collectDocuments([path])).documents
    await rm(path)
    const reading = (async () => {
      for await (const _ of document?.read() ?? []) expect.unreachable()
    })()
    await expect(reading).rejects.toMatchObject({
      exitCode: 2,
      message: `cannot read ${path} (no such file or directory)`,
      retryable: false,
    })
  })

  test('a file that vanishes while the ones before it are sent ends the run with its name', async () => {
    const [first = '', second = ''] = await write({ 'a.md': 'x'.repeat(8_388_608), 'b.md': 'x' })
    gateway.on(TRAIN, async (request, response) => {
      await rm(second)
      return readable(() => true)(request, response)
    })
    const { exitCode, stdout, stderr } = await indexes(['add', 'handbook', first, second, '--field', 'name'])
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: `${nameOf('a.md')}\n` })
    expect(stderr).toContain(`error: cannot read ${second} (no such file or directory)`)
  })

  test('takes the name of the index as create does', async () => {
    const paths = await write({ 'a.md': 'x' })
    expect((await indexes(['add', ' Hand!book', ...paths])).exitCode).toBe(0)
    expect((await indexes(['add', '!?', ...paths])).exitCode).toBe(2)
  })

  test('sends nothing when a path does not exist, when nothing is left, or with --strict when a file is left out', async () => {
    await writeFile(join(folder, 'a.md'), 'x')
    await writeFile(join(folder, 'b.doc'), 'x')
    for (const words of [[join(folder, 'nope.md')], [join(folder, 'b.doc')], [folder, '--strict']]) {
      expect((await indexes(['add', 'handbook', ...words])).exitCode).toBe(2)
    }
    expect(gateway.requests).toEqual([])
  })

  test('an error in the middle shows the documents that were added before', async () => {
    const names = Array.from({ length: 21 }, (_, at) => join(folder, `${String(at).padStart(2, '0')}.md`))
    await Promise.all(names.map((name) => writeFile(name, name)))
    const first = Array.from({ length: 20 }, (_, at) => ({ name: `${at}`, status: 'indexed', chunks: 1 }))
    gateway.on(TRAIN, json(200, trainResult(first)), flatError(413, 'File too large', 'Too large.'))
    const { exitCode, stdout } = await indexes(['add', 'handbook', folder, '--field', 'name'])
    expect(exitCode).toBe(2)
    expect(stdout.trimEnd().split('\n')).toHaveLength(20)
  })
})
