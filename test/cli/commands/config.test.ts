import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { KEY } from '../fake-gateway.ts'
import { type CliOptions, runCli } from '../run-cli.ts'

let home: string
let file: string
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'aigw-cli-'))
  await mkdir(join(home, 'aigw'))
  file = join(home, 'aigw/config.yaml')
  await writeFile(file, SETTINGS)
})
afterEach(() => rm(home, { recursive: true }))

const SETTINGS = `# ours
retries: 2 # of safe requests
profiles:
  work: { base_url: "https://ai.example.com" } # the company's
`
const aigw = (words: string[], options: CliOptions = {}) =>
  runCli(['config', ...words], { ...options, env: { XDG_CONFIG_HOME: home, ...options.env } })
const content = () => readFile(file, 'utf8')

describe('aigw config', () => {
  test('set changes one value and keeps every comment', async () => {
    expect(await aigw(['set', 'retries', '3'])).toMatchObject({ exitCode: 0, stdout: '' })
    await aigw(['set', 'chat.model', 'openai/gpt-4o'])
    await aigw(['set', 'profiles.work.chat.index', '5'])
    expect(await content()).toBe(`# ours
retries: 3 # of safe requests
profiles:
  work: { base_url: "https://ai.example.com", chat: { index: "5" } } # the company's
chat:
  model: openai/gpt-4o
`)
  })

  test.each([
    [['set', 'retries', 'many'], 'retries must be a whole number'],
    [['set', 'retries', '99'], '--retries must be a whole number from 0 to 10'],
    [['set', 'output', 'xml'], "'xml' is not an output format"],
    [['set', 'timeout', 'soon'], 'must be a duration'],
    [['set', 'colour', 'always'], 'colour is not a known setting'],
    [['set', 'retries.most', '3'], 'inside a setting that is not a map'],
    [['set', 'chat..model', 'x'], "'chat..model' is not a setting"],
  ])('%j is refused and changes nothing', async (words, message) => {
    const { exitCode, stderr } = await aigw(words)
    expect({ exitCode, stderr }).toEqual({ exitCode: 2, stderr: expect.stringContaining(message) })
    expect(await content()).toBe(SETTINGS)
  })

  test('get prints a value, and exits 3 for a value that is not set', async () => {
    expect((await aigw(['get', 'profiles.work.base_url'])).stdout).toBe('https://ai.example.com\n')
    expect(JSON.parse((await aigw(['get', 'retries', '-o', 'json'])).stdout)).toEqual({ key: 'retries', value: 2 })
    const missing = await aigw(['get', 'chat.model'])
    expect(missing.exitCode).toBe(3)
    expect(missing.stderr).toContain(`${file} does not set 'chat.model'`)
  })

  test('unset removes a value; list shows the others', async () => {
    await aigw(['unset', 'retries'])
    expect((await aigw(['list', '-o', 'tsv'])).stdout).toBe(
      'key\tvalue\nprofiles.work.base_url\thttps://ai.example.com\n',
    )
    expect((await aigw(['unset', 'retries'])).stderr).toContain('nothing was changed')
  })

  test('--dry-run writes nothing', async () => {
    expect((await aigw(['set', 'retries', '5', '--dry-run'])).stderr).toContain('retries: 5 # of safe requests')
    expect(await content()).toBe(SETTINGS)
  })

  test('edit saves what the editor wrote, and keeps an invalid text apart', async () => {
    const edited = await aigw(['edit'], { env: { EDITOR: "sed -i 's/retries: 2/retries: 7/'" } })
    expect(edited).toMatchObject({ exitCode: 0 })
    expect(await content()).toContain('retries: 7 # of safe requests')
    const broken = await aigw(['edit'], { env: { EDITOR: "sed -i 's/retries: 7/retries: many/'" } })
    expect(broken.exitCode).toBe(2)
    expect(broken.stderr).toContain(`Your text is in ${file}.edited.`)
    expect(await content()).toContain('retries: 7')
    expect(await readFile(`${file}.edited`, 'utf8')).toContain('retries: many')
    expect((await stat(`${file}.edited`)).mode & 0o777).toBe(0o600)
  })

  test('--dry-run of edit writes nothing, and validates', async () => {
    const edited = await aigw(['edit', '--dry-run'], { env: { EDITOR: "sed -i 's/retries: 2/retries: 7/'" } })
    expect(edited).toMatchObject({ exitCode: 0, stderr: expect.stringContaining('retries: 7') })
    const broken = await aigw(['edit', '--dry-run'], { env: { EDITOR: "sed -i 's/retries: 2/retries: many/'" } })
    expect(broken.exitCode).toBe(2)
    expect(await content()).toBe(SETTINGS)
    expect(await readdir(join(home, 'aigw'))).toEqual(['config.yaml'])
  })

  test('a change keeps the owner and the group of the file', async () => {
    // Only root can change them. For other users, they are the own ones.
    const [uid, gid] = process.getuid?.() === 0 ? [4242, 4343] : [process.getuid?.() ?? 0, process.getgid?.() ?? 0]
    await chown(file, uid, gid)
    await chmod(file, 0o640)
    expect(await aigw(['set', 'retries', '3'])).toMatchObject({ exitCode: 0 })
    const kept = await stat(file)
    expect([kept.uid, kept.gid, kept.mode & 0o777]).toEqual([uid, gid, 0o640])
  })

  test('edit without a terminal starts no editor by itself', async () => {
    expect(await aigw(['edit'])).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('EDITOR') })
  })

  test('repairs a file that no other command accepts', async () => {
    await writeFile(file, 'retries: many\n')
    expect((await runCli(['profiles', 'list'], { env: { XDG_CONFIG_HOME: home } })).exitCode).toBe(2)
    expect((await aigw(['set', 'retries', '1'])).exitCode).toBe(0)
    expect(await content()).toBe('retries: 1\n')
  })
})

describe('aigw config explain', () => {
  const explain = async (words: string[], env: Record<string, string> = {}) =>
    JSON.parse((await aigw(['explain', ...words, '-o', 'json'], { env })).stdout)

  test('shows each source in its order of precedence, and the one that is used', async () => {
    expect(await explain(['retries'])).toEqual([
      { source: '--retries', value: null, used: false },
      { source: file, value: 2, used: true },
      { source: '/etc/aigw/cli.yaml', value: null, used: false },
      { source: 'default', value: '2', used: false },
    ])
    expect((await explain(['retries', '--retries', '4']))[0]).toEqual({ source: '--retries', value: '4', used: true })
  })

  test('shows the source of the key and never the key', async () => {
    const env = { AIGW_API_KEY: KEY }
    const { stdout } = await aigw(['explain', 'api_key', '-P', 'work'], { env })
    expect(stdout).toContain('AIGW_API_KEY\t(secret)\ttrue\n')
    expect(stdout).not.toContain(KEY)
    expect(await explain(['base_url', '-P', 'work'])).toContainEqual({
      source: file,
      value: 'https://ai.example.com',
      used: true,
    })
  })
})

describe('the secrets of a gateway', () => {
  const GATEWAY = `# api_key: sk-in-a-comment
bootstrap_key: sk-leak-1
master_key: { command: [vault, read] }
database: { url: "postgres://aigw:leak-2@db/aigw" }
telemetry: { headers: { authorization: leak-3, file: leak-4 } }
providers:
  house:
    base_url: "https://house.example/v1?api_key=leak-5"
    proxy: "http://me:le@leak-6@proxy.example"
    api_keys: [sk-leak-7, { key: sk-leak-8, weight: 70 }, { key: { file: house-key } }]
  bedrock: { credentials: { access_key_id: leak-9, secret_access_key: leak-10, session_token: leak-11 } }
  vertex: { credentials: '{"private_key": "leak-12"}' }
  file: { api_key: 12345678 }
`
  let path: string
  beforeEach(async () => {
    path = join(home, 'aigw.yaml')
    await writeFile(path, GATEWAY)
  })
  const LEAK = /leak|12345678|comment/

  test('list shows settings and references, and no secret', async () => {
    const { stdout } = await aigw(['list', '--gateway-file', path, '-o', 'json'])
    const rows: { key: string; value: unknown }[] = JSON.parse(stdout)
    expect(stdout).not.toMatch(LEAK)
    expect(rows).toContainEqual({
      key: 'providers.house.api_keys',
      value: ['(secret)', { key: '(secret)', weight: 70 }, { key: { file: 'house-key' } }],
    })
    expect(rows).toContainEqual({ key: 'master_key.command', value: ['vault', 'read'] })
    expect(rows).toContainEqual({ key: 'database.url', value: 'postgres://aigw:***@db/aigw' })
    expect(rows).toContainEqual({ key: 'providers.house.proxy', value: 'http://me:***@proxy.example' })
  })

  test.each([
    ['providers', '"weight":70'],
    ['providers.house.api_keys', 'house-key'],
    ['providers.house.api_keys.0', '(secret)'],
    ['providers.bedrock.credentials.session_token', '(secret)'],
    ['telemetry.headers.file', '(secret)'],
    ['providers.house.api_keys.2.key.file', 'house-key'],
  ])('explain %s shows %s, and no secret', async (key, expected) => {
    const words = ['explain', key, '--gateway-file', path, '-o', 'json']
    const [{ value }] = JSON.parse((await aigw(words)).stdout)
    expect(value).toContain(expected)
    expect(value).not.toMatch(LEAK)
  })
})

test('a failed write leaves no draft', async () => {
  await aigw(['set', 'retries', 'many'])
  expect(await readdir(join(home, 'aigw'))).toEqual(['config.yaml'])
})
