import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  type FakeGateway,
  flatError,
  indexNamed,
  json,
  KEY,
  MATCH,
  searchResult,
  startFakeGateway,
  structuredError,
} from '../fake-gateway.ts'
import { type CliOptions, runCli } from '../run-cli.ts'

let gateway: FakeGateway
beforeEach(async () => {
  gateway = await startFakeGateway()
})
afterEach(() => gateway.close())

const indexes = (words: string[], options: CliOptions = {}) =>
  runCli(['indexes', ...words], { ...options, env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: KEY } })

const page = (number: number, names: string[], pages: number, total: number) =>
  json(200, {
    success: true,
    indexes: names.map((name) => indexNamed(name)),
    pagination: { page: number, limit: 50, total, pages },
  })

describe('aigw indexes rebuild', () => {
  const REBUILD = `POST /api/external/indexes/${'1'.repeat(24)}/rebuild`
  const rebuilt = { success: true, message: 'Index rebuilt', rebuilt: { documents: 3, passages: 40 } }

  test('accepts a name, requests the rebuild by id, and prints the counts', async () => {
    gateway.on('GET /api/external/indexes/all', page(1, ['handbook'], 1, 1))
    gateway.on(REBUILD, json(200, rebuilt))
    const { exitCode, stdout } = await indexes(['rebuild', 'handbook', '-o', 'json'])
    expect([exitCode, JSON.parse(stdout)]).toEqual([0, rebuilt.rebuilt])
    expect((await indexes(['rebuild', 'handbook', '--field', 'passages'])).stdout).toBe('40\n')
  })

  test('exits with 6 while others change the index', async () => {
    gateway.on('GET /api/external/indexes/all', page(1, ['handbook'], 1, 1))
    gateway.on(REBUILD, structuredError(409, 'REBUILD_CONFLICT', 'Documents of this index are being added.'))
    expect((await indexes(['rebuild', 'handbook'])).exitCode).toBe(6)
  })
})

describe('aigw indexes create', () => {
  test('sends name and description and prints the index without its wrapper', async () => {
    const { exitCode, stdout } = await indexes(['create', 'handbook', '-d', 'About us', '-o', 'json'])
    expect(exitCode).toBe(0)
    expect(JSON.parse(stdout)).toEqual(indexNamed('handbook'))
    expect(gateway.requests[0]?.json).toEqual({ name: 'handbook', description: 'About us' })
    expect((await indexes(['create', 'handbook', '-o', 'id'])).stdout).toBe(`${'1'.repeat(24)}\n`)
  })

  test.each([
    ['--fields', 'nope'],
    ['--fields', 'name,nope'],
    ['--field', 'nope'],
  ])('%s %s is refused before anything is created', async (...flags) => {
    expect((await indexes(['create', 'handbook', ...flags])).exitCode).toBe(2)
    expect(gateway.requests).toEqual([])
  })

  test('a taken name exits 6 with the next step', async () => {
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

describe('the name of an index', () => {
  test.each(['My Handbook!', ' my   handbook ', 'MY-HANDBOOK'])(
    '%j is found again by --if-not-exists, however often',
    async (name) => {
      gateway.on('POST /api/external/indexes', structuredError(409, 'INDEX_NAME_EXISTS', 'Taken.'))
      gateway.on('GET /api/external/indexes/all', page(1, ['my-handbook'], 1, 1))
      for (let run = 0; run < 2; run++) {
        expect((await indexes(['create', name, '--if-not-exists', '--field', 'name'])).stdout).toBe('my-handbook\n')
      }
      expect(gateway.requests[1]?.path).toContain('search=my-handbook')
    },
  )

  test('is normalised like at the gateway, for search too', async () => {
    expect((await indexes(['search', 'Hand_book', 'leave'])).exitCode).toBe(0)
    expect(gateway.requests[0]?.path).toContain('/indexes/handbook/search')
    const { exitCode, stderr } = await indexes(['search', '!?', 'leave'])
    expect(exitCode).toBe(2)
    expect(stderr).toContain("'!?' is not a valid index name")
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
    const more = ['handbook', 'faq', 'hand-over'].map((name) => ({ id: name, name, type: 'general' }))
    gateway.on('GET /api/external/indexes', json(200, { success: true, indexes: more, restrictions: {} }))
    expect((await indexes(['list', '-o', 'id', '--search', 'HAND'])).stdout).toBe('handbook\nhand-over\n')
    const limited = await indexes(['list', '-o', 'id', '--limit', '2'])
    expect(limited.stdout).toBe('handbook\nfaq\n')
    expect(limited.stderr).toContain('showing 2 of 3')
  })
})

describe('aigw indexes show, update, delete', () => {
  const requests = () => gateway.requests.map(({ method, path }) => `${method} ${path}`)
  const ID = '1'.repeat(24)

  test.each(['handbook', 'HandBook ', ID])('%j is found by name or id', async (given) => {
    expect((await indexes(['show', given, '--field', 'name'])).stdout).toBe('handbook\n')
    expect((await indexes(['delete', given, '--yes'])).exitCode).toBe(0)
    expect(requests().at(-1)).toBe(`DELETE /api/external/indexes/${ID}`)
  })

  test('one that does not exist exits 3, or 0 where that is no matter', async () => {
    const { exitCode, stderr } = await indexes(['show', 'nowhere'])
    expect(exitCode).toBe(3)
    expect(stderr).toContain('aigw indexes list')
    expect((await indexes(['delete', 'nowhere', '--yes', '--ignore-not-found'])).exitCode).toBe(0)
  })

  test('a deletion needs a confirmation', async () => {
    expect((await indexes(['delete', ID])).exitCode).toBe(2)
    expect(gateway.requests).toEqual([])
  })

  test.each([
    [['--name', 'guide', '-d', ''], { name: 'guide', description: '' }],
    [['--user', 'ada@example.com'], { assignedUser: 'e'.repeat(24) }],
    [['--group', 'support'], { assignedGroup: '3'.repeat(24) }],
    [['--general'], { assignedUser: null, assignedGroup: null }],
  ])('an update with %j sends what was named and nothing else', async (flags, sent) => {
    expect((await indexes(['update', ID, ...flags, '-o', 'id'])).stdout).toBe(`${ID}\n`)
    expect(gateway.requests.at(-1)?.json).toEqual(sent)
  })

  test('an index has one owner, and an update says something', async () => {
    expect((await indexes(['update', ID, '--user', 'ada', '--group', 'support'])).exitCode).toBe(2)
    expect((await indexes(['create', 'mine', '--user', 'ada', '--group', 'support'])).exitCode).toBe(2)
    expect((await indexes(['update', ID])).exitCode).toBe(2)
    expect(gateway.requests).toEqual([])
  })

  test('create sets the owner, and reports an existing index with another owner', async () => {
    expect((await indexes(['create', 'handbook', '--group', 'support'])).exitCode).toBe(0)
    expect(gateway.requests.at(-1)?.json).toEqual({ name: 'handbook', assignedGroup: '3'.repeat(24) })
    gateway.on('POST /api/external/indexes', structuredError(409, 'INDEX_NAME_EXISTS', 'Taken.'))
    const again = await indexes(['create', 'handbook', '--group', 'support', '--if-not-exists'])
    expect([again.exitCode, again.stderr]).toEqual([0, expect.stringContaining('(differs: assignedGroup)')])
  })
})

describe('aigw indexes docs, remove', () => {
  test('lists what is in it', async () => {
    const { stdout } = await indexes(['docs', 'Handbook', '--search', 'leave', '--fields', 'name,chunks'])
    expect(stdout).toBe('name\tchunks\nleave.md\t3\n')
    expect(gateway.requests[0]?.path).toBe('/api/external/indexes/handbook/documents?search=leave&page=1&limit=50')
  })

  test.each(['leave.md', '2'.repeat(24)])('takes %s out', async (given) => {
    expect((await indexes(['remove', 'handbook', given, '--yes'])).exitCode).toBe(0)
    const { method, path } = gateway.requests.at(-1) ?? {}
    expect([method, path]).toEqual(['DELETE', `/api/external/indexes/handbook/documents/${'2'.repeat(24)}`])
  })

  test('an unknown document exits 3 with the command that lists documents', async () => {
    const { exitCode, stderr } = await indexes(['remove', 'handbook', 'leave', '--yes'])
    expect(exitCode).toBe(3)
    expect(stderr).toContain('aigw indexes docs handbook')
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

  test('shows a person each passage in full, with the words that were asked for set off', async () => {
    const content = `Unused days carry over. ${'More of the same. '.repeat(10)}`
    const match = { ...MATCH, content, metadata: { ...MATCH.metadata, page: 7 } }
    gateway.on('GET /api/external/indexes/handbook/search', json(200, searchResult([match, { ...MATCH, rank: 2 }])))
    const search = (...flags: string[]) =>
      indexes(['search', 'handbook', 'carrying', 'day', ...flags], { terminal: { stdout: true }, columns: 60 })
    const plain = (await search('--color', 'never')).stdout
    expect(plain).toMatch(/^1 {2}leave\.md, page 7 {2}0\.91\n {3}Unused days carry over\. More/)
    expect(plain).toContain('\n\n2  leave.md  0.91\n')
    for (const line of plain.split('\n')) expect(line.length).toBeLessThanOrEqual(60)
    expect((await search('--color', 'always')).stdout).toContain(
      'Unused \x1b[4mdays\x1b[24m \x1b[4mcarry\x1b[24m over.',
    )
    expect((await search('--fields', 'source,score')).stdout).toContain('SOURCE')
  })

  test('an index that does not exist exits 3, an impossible number of matches 2', async () => {
    gateway.on('GET /api/external/indexes/nope/search', flatError(404, 'Index not found', 'There is no index nope.'))
    expect((await indexes(['search', 'nope', 'x'])).exitCode).toBe(3)
    expect((await indexes(['search', 'handbook', 'x', '-k', '51'])).exitCode).toBe(2)
  })
})
