import { mkdir, mkdtemp, rm, symlink, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  type FakeGateway,
  flatError,
  indexNamed,
  json,
  KEY,
  MATCH,
  readMultipart,
  searchResult,
  startFakeGateway,
  structuredError,
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

const page = (number: number, names: string[], pages: number, total: number) =>
  json(200, {
    success: true,
    indexes: names.map((name) => indexNamed(name)),
    pagination: { page: number, limit: 50, total, pages },
  })

describe('aigw indexes create', () => {
  test('sends name and description and prints the index without its wrapper', async () => {
    const { exitCode, stdout } = await indexes(['create', 'handbook', '-d', 'About us', '-o', 'json'])
    expect(exitCode).toBe(0)
    expect(JSON.parse(stdout)).toEqual(indexNamed('handbook'))
    expect(gateway.requests[0]?.json).toEqual({ name: 'handbook', description: 'About us' })
    expect((await indexes(['create', 'handbook', '-o', 'id'])).stdout).toBe(`${'1'.repeat(24)}\n`)
  })

  test('a taken name exits 6 and says what to do', async () => {
    gateway.on('POST /api/external/indexes', structuredError(409, 'INDEX_NAME_EXISTS', 'Taken.'))
    const { exitCode, stderr } = await indexes(['create', 'handbook'])
    expect(exitCode).toBe(6)
    expect(stderr).toContain("error: an index named 'handbook' already exists (INDEX_NAME_EXISTS)")
    expect(stderr).toContain('add --if-not-exists')
  })

  test('--if-not-exists prints the existing one and exits 0; --strict exits 6 where it differs', async () => {
    gateway.on('POST /api/external/indexes', structuredError(409, 'INDEX_NAME_EXISTS', 'Taken.'))
    const again = await indexes(['create', 'handbook', '-d', 'New', '--if-not-exists', '-o', 'id'])
    expect(again).toEqual({
      exitCode: 0,
      stdout: `${'1'.repeat(24)}\n`,
      stderr: "note: index 'handbook' already exists; left unchanged (differs: description)\n",
    })
    const strict = ['create', 'handbook', '--if-not-exists', '--strict']
    expect((await indexes([...strict, '-d', 'New'])).exitCode).toBe(6)
    expect((await indexes([...strict, '-d', 'All about us'])).exitCode).toBe(0)
    expect((await indexes(strict)).exitCode).toBe(0)
  })
})

describe('aigw indexes list', () => {
  test('prints aligned columns on a terminal and TSV into a pipe', async () => {
    const shown = await indexes(['list'], { terminal: { stdout: true }, columns: 70 })
    const [head = '', first = ''] = shown.stdout.split('\n')
    expect(head).toContain('DOCUMENTS')
    expect(first.indexOf('3')).toBe(head.replaceAll(/\x1b\[\d+m/g, '').indexOf('DOCUMENTS'))
    expect(first.length).toBeLessThanOrEqual(70)
    const piped = await indexes(['ls', '--fields', 'name,documentCount'])
    expect(piped.stdout).toBe('name\tdocumentCount\nhandbook\t3\nfaq\t3\n')
  })

  test('--all follows every page; a limit stops early and says how many there are', async () => {
    const pages = [page(1, ['a1', 'a2'], 2, 3), page(2, ['a3'], 2, 3)]
    gateway.on('GET /api/external/indexes/all', ...pages)
    expect((await indexes(['list', '--all', '--field', 'name'])).stdout).toBe('a1\na2\na3\n')
    gateway.on('GET /api/external/indexes/all', page(1, ['a1', 'a2'], 2, 3))
    const limited = await indexes(['list', '--limit', '2', '--field', 'name'])
    expect(limited.stdout).toBe('a1\na2\n')
    expect(limited.stderr).toContain('showing 2 of 3')
  })

  test('an empty list is [] with exit 0', async () => {
    gateway.on('GET /api/external/indexes/all', page(1, [], 0, 0))
    expect(await indexes(['list', '-o', 'json'])).toEqual({ exitCode: 0, stdout: '[]\n', stderr: '' })
  })

  test('a key without administrator rights sees what it may query', async () => {
    gateway.on('GET /api/external/indexes/all', structuredError(403, 'INSUFFICIENT_PERMISSIONS', 'No.'))
    const found = [{ id: 'handbook', name: 'handbook', type: 'general' }]
    gateway.on('GET /api/external/indexes', json(200, { success: true, indexes: found, restrictions: {} }))
    const { exitCode, stdout, stderr } = await indexes(['list', '-o', 'id'])
    expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: 'handbook\n' })
    expect(stderr).toContain('not an administrator')
  })
})

describe('aigw indexes search', () => {
  test('prints matches in every format, harmless on a terminal and exact in JSON', async () => {
    const match = { ...MATCH, content: 'a\x1b[2Jb\nc' }
    gateway.on('GET /api/external/indexes/handbook/search', json(200, searchResult([match])))
    const shown = await indexes(['search', 'handbook', 'leave', 'days', '-k', '3'], { terminal: { stdout: true } })
    expect(shown.stdout).toContain('ab c')
    expect(gateway.requests[0]?.path).toBe('/api/external/indexes/handbook/search?query=leave+days&top_k=3')
    const [found] = JSON.parse((await indexes(['search', 'handbook', 'leave', '-o', 'json'])).stdout)
    expect(found.content).toBe('a\x1b[2Jb\nc')
  })

  test('an index that does not exist exits 3, an impossible number of matches 2', async () => {
    gateway.on('GET /api/external/indexes/nope/search', flatError(404, 'Index not found', 'There is no index nope.'))
    expect((await indexes(['search', 'nope', 'x'])).exitCode).toBe(3)
    expect((await indexes(['search', 'handbook', 'x', '-k', '51'])).exitCode).toBe(2)
  })
})

describe('aigw indexes add', () => {
  test('sends text and Markdown with the way to them as their name, and tells what it left out', async () => {
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
      stdout: 'name\tstatus\ndocs/a/README.md\tindexed\ndocs/b.txt\tindexed\n',
    })
    for (const reason of ['empty', 'not a text or Markdown file', 'hidden', 'larger than 50 MB', 'a symbolic link']) {
      expect(stderr).toContain(`: ${reason}\n`)
    }
    expect(stderr).toContain('handbook: 2 added (4 passages), 5 skipped.')
    const [request] = gateway.requests
    const files = request === undefined ? [] : await readMultipart(request)
    expect(files.map(({ field, name, type, content }) => [field, name, type, content.toString()])).toEqual([
      ['files', 'docs/a/README.md', 'text/markdown', '# One é'],
      ['files', 'docs/b.txt', 'text/plain', 'Two'],
    ])
    expect(request?.headers['content-length']).toBe(String(request?.body.length))
  })

  test('sends at most 20 files in one request and loses none', async () => {
    const names = Array.from({ length: 45 }, (_, at) => `file-${String(at).padStart(2, '0')}.md`)
    await Promise.all(names.map((name) => writeFile(join(folder, name), name)))
    const { stdout } = await indexes(['add', 'handbook', ...names.map((name) => join(folder, name)), '--field', 'name'])
    expect(stdout.trimEnd().split('\n')).toEqual(names)
    const counts = await Promise.all(gateway.requests.map(async (request) => (await readMultipart(request)).length))
    expect(counts).toEqual([20, 20, 5])
  })

  test('keeps every character of a file name', async () => {
    const name = 'a "quoted" naïve 日本.md'
    await writeFile(join(folder, name), 'x')
    await indexes(['add', 'handbook', join(folder, name)])
    const [request] = gateway.requests
    const [file] = request === undefined ? [] : await readMultipart(request)
    expect(file?.name).toBe(name.replaceAll('"', '%22'))
  })

  test('takes a document from stdin under the name it is given', async () => {
    await indexes(['add', 'handbook', '-', '--name', 'notes.txt'], { stdin: 'From a pipe' })
    const [request] = gateway.requests
    const [file] = request === undefined ? [] : await readMultipart(request)
    expect([file?.name, file?.type, file?.content.toString()]).toEqual(['notes.txt', 'text/plain', 'From a pipe'])
  })

  test('exits 1 when the gateway could not take a document, after showing all of them', async () => {
    await writeFile(join(folder, 'bad.md'), 'x')
    const documents = [{ name: 'bad.md', status: 'failed', chunks: 0, error: 'not UTF-8' }]
    gateway.on(TRAIN, json(200, trainResult(documents)))
    const { exitCode, stdout, stderr } = await indexes(['add', 'handbook', join(folder, 'bad.md')])
    expect(exitCode).toBe(1)
    expect(stdout).toContain('bad.md\tfailed\t0\tnot UTF-8')
    expect(stderr).toContain('error: 1 of 1 documents could not be added')
  })

  test('sends nothing when a path does not exist, when nothing is left, or with --strict when a file is left out', async () => {
    await writeFile(join(folder, 'a.md'), 'x')
    await writeFile(join(folder, 'b.pdf'), 'x')
    for (const words of [[join(folder, 'nope.md')], [join(folder, 'b.pdf')], [folder, '--strict']]) {
      expect((await indexes(['add', 'handbook', ...words])).exitCode).toBe(2)
    }
    expect(gateway.requests).toEqual([])
  })

  test('a refusal in the middle shows what was added before it', async () => {
    const names = Array.from({ length: 21 }, (_, at) => join(folder, `${String(at).padStart(2, '0')}.md`))
    await Promise.all(names.map((name) => writeFile(name, name)))
    const first = Array.from({ length: 20 }, (_, at) => ({ name: `${at}`, status: 'indexed', chunks: 1 }))
    gateway.on(TRAIN, json(200, trainResult(first)), flatError(413, 'File too large', 'Too large.'))
    const { exitCode, stdout } = await indexes(['add', 'handbook', folder, '--field', 'name'])
    expect(exitCode).toBe(2)
    expect(stdout.trimEnd().split('\n')).toHaveLength(20)
  })
})
