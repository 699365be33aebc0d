import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { sharedGateway } from '../../harness.ts'
import { type FakeGateway, flatError, groupNamed, json, KEY, listOf, startFakeGateway } from '../fake-gateway.ts'
import { type CliOptions, captured, runCli } from '../run-cli.ts'

const UNKNOWN = '0'.repeat(24)

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aigw-cli-'))
})
afterEach(() => rm(folder, { recursive: true }))

async function fileWith(text: string): Promise<string> {
  const path = join(folder, 'fields')
  await writeFile(path, text)
  return path
}

describe('with a gateway', () => {
  const gateway = sharedGateway()
  const groups = (words: string[], options: CliOptions = {}) =>
    runCli(['groups', ...words], {
      ...options,
      env: {
        AIGW_BASE_URL: gateway.current.url,
        AIGW_API_KEY: gateway.current.adminKey,
        NO_COLOR: '1',
        ...options.env,
      },
    })
  const shown = async (group: string) => JSON.parse((await groups(['show', group, '-o', 'json'])).stdout)
  const emailsIn = async (group: string) =>
    (await shown(group)).users.map(({ email }: { email: string }) => email).sort()

  const users: Record<string, string> = {}
  beforeAll(async () => {
    for (const username of ['ada', 'ben', 'cyd']) {
      const body = { name: `${username} of ours`, email: `${username}@example.com`, username }
      const { body: made } = await gateway.current.call('POST', '/api/external/users', body)
      users[username] = made.user.id
    }
  })

  test('create prints the group without its wrapper; each kind of user reference leads to the same user', async () => {
    for (const [at, said] of [users.ada ?? '', 'ADA@example.com', 'ada', 'ada of ours'].entries()) {
      const { exitCode, stdout, stderr } = await groups(['create', `team ${at}`, '-d', 'Us', '--user', said, '--json'])
      expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
      expect(JSON.parse(stdout)).toMatchObject({
        name: `team ${at}`,
        description: 'Us',
        status: 'Active',
        userCount: 1,
      })
      expect(await emailsIn(`team ${at}`)).toEqual(['ada@example.com'])
    }
  })

  test('create --if-not-exists prints the same id twice, and says what differs', async () => {
    const create = (...more: string[]) => groups(['create', 'support', '--if-not-exists', '-o', 'id', ...more])
    const first = await create('-d', 'Tier 1', '--user', 'ben', '--user', 'ada')
    expect(first).toMatchObject({ exitCode: 0, stderr: '' })
    expect(await create('-d', ' Tier 1 ', '--user', 'ada', '--user', 'ben', '--strict')).toEqual({
      exitCode: 0,
      stdout: first.stdout,
      stderr: "note: group 'support' already exists; left unchanged\n",
    })
    expect(await create('-d', 'Tier one', '--status', 'Inactive')).toEqual({
      exitCode: 0,
      stdout: first.stdout,
      stderr: "note: group 'support' already exists; left unchanged (differs: description, status)\n",
    })
    const strict = await create('-d', 'Tier 1', '--user', 'ada', '--strict')
    expect(strict).toMatchObject({ exitCode: 6, stdout: '' })
    expect(strict.stderr).toContain("group 'support' already exists and differs: users")
    expect(await groups(['create', 'support', '-d', 'Tier 1'])).toEqual({
      exitCode: 6,
      stdout: '',
      stderr: expect.stringMatching(
        /^error: a group named 'support' already exists \(GROUP_NAME_EXISTS\)\n {2}Use it: {6}aigw groups show support\n {2}In scripts: {2}add --if-not-exists\n/,
      ),
    })
  })

  test('create takes a JSON or YAML file, and flags win over it', async () => {
    const yaml = await fileWith('name: from-file\ndescription: In the file\nstatus: Inactive\nusers: [ada, ben]\n')
    expect((await groups(['create', '--from-file', yaml, '-d', 'From a flag'])).exitCode).toBe(0)
    expect(await shown('from-file')).toMatchObject({ description: 'From a flag', status: 'Inactive', userCount: 2 })
    const text = JSON.stringify({ name: 'from-stdin', description: '' })
    expect((await groups(['create', '--from-file', '-'], { stdin: text })).exitCode).toBe(0)
    expect(await shown('from-stdin')).toMatchObject({ description: '', users: [] })
  })

  test('update changes what was named and nothing else', async () => {
    await groups(['create', 'before', '-d', 'Same', '--user', 'ada', '--status', 'Inactive'])
    const { id } = await shown('before')
    expect((await groups(['update', 'before', '--name', 'after', '-o', 'id'])).stdout).toBe(`${id}\n`)
    expect((await groups(['update', id.toUpperCase(), '--status', 'Active'])).exitCode).toBe(0)
    expect(await shown('after')).toMatchObject({ id, description: 'Same', status: 'Active', userCount: 1 })
    const file = await fileWith('users: [ben]')
    expect((await groups(['update', 'after', '--from-file', file])).exitCode).toBe(0)
    expect(await emailsIn('after')).toEqual(['ben@example.com'])
    await groups(['create', 'taken', '-d', 'x'])
    expect((await groups(['update', 'after', '--name', 'taken'])).exitCode).toBe(6)
  })

  test('members are added and removed one by one, and a repeated change changes nothing', async () => {
    await groups(['create', 'crew', '-d', 'x', '--user', 'ada'])
    expect((await groups(['members', 'add', 'crew', 'ben@example.com', users.cyd ?? ''])).exitCode).toBe(0)
    expect(await emailsIn('crew')).toEqual(['ada@example.com', 'ben@example.com', 'cyd@example.com'])
    const { updatedAt } = await shown('crew')
    const again = await groups(['members', 'add', 'crew', 'ben', '-o', 'json'])
    expect(again.stderr).toBe("note: nothing to change in group 'crew'\n")
    expect(JSON.parse(again.stdout)).toMatchObject({ userCount: 3, updatedAt })
    expect((await groups(['members', 'rm', 'crew', 'BEN@example.com', 'cyd of ours'])).exitCode).toBe(0)
    expect(await emailsIn('crew')).toEqual(['ada@example.com'])
    expect((await groups(['members', 'remove', 'crew', users.cyd ?? ''])).stderr).toContain('nothing to change')
    for (const verb of ['add', 'remove']) {
      expect((await groups(['members', verb, 'crew', 'ben', 'nobody'])).exitCode).toBe(3)
    }
    expect((await groups(['members', 'add', 'crew', UNKNOWN])).exitCode).toBe(2)
    expect(await emailsIn('crew')).toEqual(['ada@example.com'])
  })

  test('delete removes the group, by name and by id, and its absence can be ignored', async () => {
    await groups(['create', 'short lived', '-d', 'x'])
    expect(await groups(['delete', 'short lived'])).toMatchObject({ exitCode: 2, stdout: '' })
    expect(await groups(['delete', 'short lived', '--yes'])).toEqual({
      exitCode: 0,
      stdout: '',
      stderr: "Deleted group 'short lived'.\n",
    })
    const gone = await groups(['delete', 'short lived', '--yes'])
    expect(gone.exitCode).toBe(3)
    expect(gone.stderr).toBe(
      "error: there is no group 'short lived'\n  To list existing names and ids, run: aigw groups list\n",
    )
    // Nothing is to be confirmed where there is nothing.
    expect(await groups(['rm', 'short lived', '--ignore-not-found'])).toEqual({
      exitCode: 0,
      stdout: '',
      stderr: "note: there is no group 'short lived'; nothing was deleted\n",
    })
    const id = (await groups(['create', 'short lived', '-d', 'x', '-o', 'id'])).stdout.trim()
    expect((await groups(['delete', id, '-y'])).exitCode).toBe(0)
    expect((await groups(['show', id])).exitCode).toBe(3)
  })

  test('a group whose name looks like an id is found by it', async () => {
    const name = 'c0ffee'.repeat(4)
    const id = (await groups(['create', name, '-d', 'x', '-o', 'id'])).stdout
    expect((await groups(['show', name, '-o', 'id'])).stdout).toBe(id)
  })

  test('list filters, limits and says how many there are', async () => {
    for (const at of [1, 2, 3]) {
      await groups(['create', `zone ${at}`, '-d', 'x', '--status', at === 1 ? 'Inactive' : 'Active'])
    }
    const names = async (...words: string[]) =>
      (await groups(['list', '--search', 'ZONE', '--field', 'name', ...words])).stdout
    expect(await names()).toBe('zone 3\nzone 2\nzone 1\n')
    expect(await names('--status', 'Inactive')).toBe('zone 1\n')
    const limited = await groups(['ls', '--search', 'zone', '--limit', '2', '-o', 'json'])
    expect(JSON.parse(limited.stdout)).toHaveLength(2)
    expect(limited.stderr).toBe('note: showing 2 of 3; add --all\n')
    expect((await groups(['list', '--search', 'nothing like it', '-o', 'json'])).stdout).toBe('[]\n')
  })

  test('show prints the members for people, and the bytes of the answer with --raw', async () => {
    await groups(['create', 'seen', '-d', 'x', '--user', 'ada', '--user', 'ben'])
    const card = await groups(['get', 'seen'], { terminal: { stdout: true } })
    expect(card.stdout).toMatch(/^USERS +ada@example.com,ben@example.com$/m)
    expect(JSON.parse((await groups(['show', 'seen', '--raw'])).stdout)).toMatchObject({
      success: true,
      group: { name: 'seen' },
    })
  })
})

describe('before anything is sent', () => {
  let gateway: FakeGateway
  beforeEach(async () => {
    gateway = await startFakeGateway()
  })
  afterEach(() => gateway.close())
  const groups = (words: string[], options: CliOptions = {}) =>
    runCli(['groups', ...words], { ...options, env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: KEY, CI: '1' } })

  test.each([
    ['a missing description', ['create', 'x'], '--description is missing'],
    ['a missing name', ['create', '-d', 'x'], 'NAME is missing'],
    ['an unknown status', ['create', 'x', '-d', 'x', '--status', 'Actve'], 'Allowed choices are Active, Inactive'],
    ['an update without a change', ['update', 'x'], 'no change of the group was given'],
    ['a field that no group has', ['update', 'x', '-d', 'y', '--fields', 'nope'], "there is no field 'nope'"],
    ['--strict alone', ['create', 'x', '-d', 'x', '--strict'], '--strict needs --if-not-exists'],
    [
      'bytes of an answer that may not come',
      ['create', 'x', '-d', 'x', '--raw', '--if-not-exists'],
      'cannot be combined',
    ],
    ['a deletion that nobody can confirm', ['delete', '3'.repeat(24)], 'Pass --yes'],
  ])('%s exits 2', async (_, words, message) => {
    const { exitCode, stdout, stderr } = await groups(words)
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' })
    expect(stderr).toContain(message)
    expect(gateway.requests.filter(({ method }) => method !== 'GET')).toEqual([])
  })

  test.each([
    ['nmae: x', "unknown member 'nmae'", "Did you mean 'name'?"],
    ['[1, 2]', 'must contain one object', 'name, description, status, users'],
    ['', 'must contain one object', ''],
    ['{ "name": ', 'is neither JSON nor YAML', ''],
    ['name: 5\ndescription: x', "'name' in the file must be text", ''],
    ['name: x\ndescription: x\nusers: ada', "'users' in the file must be a list of texts", ''],
  ])('the file %j exits 2', async (text, message, hint) => {
    const { exitCode, stderr } = await groups(['create', '--from-file', await fileWith(text)])
    expect(exitCode).toBe(2)
    expect(stderr).toContain(message)
    expect(stderr).toContain(hint)
    expect(gateway.requests).toEqual([])
  })

  test('a file that cannot be read exits 2', async () => {
    const { exitCode, stderr } = await groups(['create', '--from-file', join(folder, 'nothing')])
    expect({ exitCode, stderr }).toEqual({ exitCode: 2, stderr: expect.stringContaining('no such file or directory') })
  })

  test('--dry-run prints the request, without asking', async () => {
    const created = await groups(['create', 'x', '-d', 'y', '--dry-run', '-o', 'json'])
    expect(JSON.parse(created.stdout)).toMatchObject({ method: 'POST', body: { name: 'x', description: 'y' } })
    const deleted = await groups(['delete', 'support', '--dry-run', '-o', 'json'])
    expect(JSON.parse(deleted.stdout)).toMatchObject({ method: 'DELETE' })
    expect(gateway.requests.map(({ method }) => method)).toEqual(['GET'])
  })

  test('what is missing is asked for on a terminal, on stderr', async () => {
    const stdin = Object.assign(new PassThrough(), { isTTY: true })
    const stderr = captured({ isTTY: true })
    const asked = async (question: string) => {
      while (!stderr.text().includes(question)) await once(stderr.stream, 'drained')
    }
    const running = groups(['create', 'support', '-o', 'id'], { io: { stdin, stderr: stderr.stream } })
    await asked('Description:')
    stdin.write('Tier 1\r')
    expect(await running).toMatchObject({ exitCode: 0, stdout: `${'3'.repeat(24)}\n` })
    expect(gateway.requests[0]?.json).toEqual({ name: 'support', description: 'Tier 1' })
  })
})

describe('what the gateway answers', () => {
  let gateway: FakeGateway
  beforeEach(async () => {
    gateway = await startFakeGateway()
  })
  afterEach(() => gateway.close())
  const groups = (words: string[], options: CliOptions = {}) =>
    runCli(['groups', ...words], { ...options, env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: KEY } })

  test.each([
    [401, 4],
    [403, 5],
    [500, 1],
  ])('status %i exits %i, also when the group is only looked up', async (status, exitCode) => {
    gateway.on('GET /api/external/groups', flatError(status, 'No', 'No.'))
    for (const words of [
      ['list'],
      ['show', 'x'],
      ['delete', 'x', '--ignore-not-found', '-y'],
      ['update', 'x', '-d', 'y'],
    ]) {
      expect(await groups(words)).toMatchObject({ exitCode, stdout: '' })
    }
  })

  test('two users of one name are not mistaken for each other', async () => {
    const user = (id: string, username: string) => ({
      id: id.repeat(24),
      name: 'Ada',
      username,
      email: `${username}@x.org`,
    })
    gateway.on('GET /api/external/users', listOf('users', [user('7', 'ada'), user('8', 'ada.l')]))
    const { exitCode, stderr } = await groups(['members', 'add', 'support', 'Ada'])
    expect(exitCode).toBe(2)
    expect(stderr).toContain(`Say which by its id:  ${'7'.repeat(24)} or ${'8'.repeat(24)}`)
    expect(gateway.requests.some(({ method }) => method === 'PUT')).toBe(false)
  })

  test('a conflict about something else than the name is reported as it is', async () => {
    gateway.on('POST /api/external/groups', flatError(409, 'Busy', 'Try again.'))
    gateway.on('GET /api/external/groups', listOf('groups', [groupNamed('other')]))
    const { exitCode, stderr } = await groups(['create', 'support', '-d', 'x', '--if-not-exists'])
    expect({ exitCode, stderr }).toEqual({ exitCode: 6, stderr: expect.stringContaining('error: Try again. (Busy)') })
  })

  test('an existing group on a later page is found', async () => {
    const page = (name: string, number: number) =>
      json(200, {
        success: true,
        groups: [groupNamed(name, { id: String(number).repeat(24) })],
        pagination: { page: number, limit: 100, total: 2, pages: 2 },
      })
    gateway.on('POST /api/external/groups', flatError(409, 'Exists', 'Taken.'))
    gateway.on('GET /api/external/groups', page('support desk', 1), page('support', 2))
    const { stdout } = await groups(['create', 'support', '-d', 'x', '--if-not-exists', '-o', 'id'])
    expect(stdout).toBe(`${'2'.repeat(24)}\n`)
  })

  test('names of others cannot write lines of their own into notes, errors and questions', async () => {
    const name = 'x\nDeleted everything.\x1b[2J'
    gateway.on('GET /api/external/groups', listOf('groups', [groupNamed(name)]))
    const note = await groups(['members', 'add', name, 'e'.repeat(24)])
    expect(note.stderr).toBe("note: nothing to change in group 'x Deleted everything.'\n")
    const { stderr } = await groups(['delete', name])
    expect(stderr.split('\n')[0]).toContain("'x Deleted everything.'")
    expect(stderr).not.toMatch(/^Deleted|\x1b/m)

    const stdin = Object.assign(new PassThrough(), { isTTY: true })
    const terminal = captured({ isTTY: true })
    const running = groups(['delete', name], { io: { stdin, stderr: terminal.stream } })
    while (!terminal.text().includes("Delete group 'x Deleted everything.'?")) await once(terminal.stream, 'drained')
    stdin.write('n\r')
    expect(await running).toMatchObject({ exitCode: 2, stdout: '' })
  })

  test('an answer without groups is no list of them', async () => {
    gateway.on('GET /api/external/groups', json(200, { hello: 'world' }))
    const { exitCode, stderr } = await groups(['list'])
    expect(exitCode).toBe(1)
    expect(stderr).toContain('did not answer with a list of groups')
  })
})
