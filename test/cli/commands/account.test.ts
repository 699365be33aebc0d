import { chmod, lstat, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createFakeClock } from '../../fake-clock.ts'
import { type FakeGateway, flatError, KEY, startFakeGateway } from '../fake-gateway.ts'
import { type CliOptions, captured, runCli } from '../run-cli.ts'

let gateway: FakeGateway
let home: string
beforeEach(async () => {
  gateway = await startFakeGateway()
  home = await mkdtemp(join(tmpdir(), 'aigw-cli-'))
})
afterEach(async () => {
  await gateway.close()
  await rm(home, { recursive: true })
})

const aigw = (words: string[], options: CliOptions = {}) =>
  runCli(words, { ...options, env: { XDG_CONFIG_HOME: home, ...options.env } })
const login = (words: string[] = []) =>
  aigw(['login', '--with-token', '--base-url', gateway.url, ...words], { stdin: `${KEY}\n` })
const credentials = () => readFile(join(home, 'aigw', 'credentials.yaml'), 'utf8').catch(() => undefined)
const config = () => readFile(join(home, 'aigw', 'config.yaml'), 'utf8').catch(() => undefined)

describe('signing in', () => {
  test('keeps the key in a file of its own that only its owner may read', async () => {
    const result = await login(['--field', 'user.name'])
    expect(result).toMatchObject({ exitCode: 0, stdout: 'admin\n' })
    expect(await credentials()).toContain(KEY)
    expect((await stat(join(home, 'aigw', 'credentials.yaml'))).mode & 0o777).toBe(0o600)
    expect(await config()).not.toContain(KEY)
    expect(`${result.stdout}${result.stderr}`).not.toContain(KEY)
    expect((await aigw(['whoami', '-o', 'id'])).stdout).toBe(`${'b'.repeat(24)}\n`)
  })

  test('saves nothing when the gateway does not know the key', async () => {
    const { exitCode } = await aigw(['login', '--with-token', '--base-url', gateway.url], { stdin: 'sk-wrong' })
    expect(exitCode).toBe(4)
    expect([await credentials(), await config()]).toEqual([undefined, undefined])
  })

  test('saves nothing with --dry-run', async () => {
    expect((await login(['--dry-run'])).exitCode).toBe(0)
    expect(await credentials()).toBeUndefined()
  })

  test('takes the key from the environment or a file, and asks nobody where nobody can answer', async () => {
    expect((await aigw(['login', '--base-url', gateway.url], { env: { AIGW_API_KEY: KEY } })).exitCode).toBe(0)
    await writeFile(join(home, 'key'), KEY)
    const fromFile = ['login', '--base-url', gateway.url, '--api-key-file', join(home, 'key')]
    expect((await aigw(fromFile)).exitCode).toBe(0)
    const { exitCode, stderr } = await aigw(['login', '--base-url', gateway.url])
    expect(exitCode).toBe(2)
    expect(stderr).toContain('--with-token')
  })

  test('a stored key is not sent to another gateway, and the refusal says why', async () => {
    await login()
    const other = await startFakeGateway()
    const { exitCode, stderr } = await aigw(['whoami', '--base-url', other.url])
    expect(exitCode).toBe(4)
    expect(stderr).toContain(`belongs to ${gateway.url} and is not sent to ${other.url}`)
    expect(other.requests).toEqual([])
    await other.close()
  })

  test('a redirect is not followed, so the key goes nowhere else', async () => {
    await login()
    const other = await startFakeGateway()
    gateway.on('GET /api/external/whoami', (_, response) => {
      response.writeHead(307, { location: `${other.url}/api/external/whoami` }).end()
    })
    const { exitCode, stderr } = await aigw(['whoami'])
    expect(exitCode).toBe(1)
    expect(stderr).toContain(`redirects to ${other.url}`)
    expect(other.requests).toEqual([])
    await other.close()
  })

  test('warns when others may read the keys', async () => {
    await login()
    await chmod(join(home, 'aigw', 'credentials.yaml'), 0o644)
    expect((await aigw(['whoami'])).stderr).toContain('warning: others can read your keys; run: chmod 600')
  })

  test('logout deletes the key and keeps the profile; a second time changes nothing', async () => {
    await login()
    expect((await aigw(['logout'])).exitCode).toBe(0)
    expect(await credentials()).not.toContain(KEY)
    expect(await config()).toContain(gateway.url)
    expect((await aigw(['whoami'])).exitCode).toBe(4)
    expect((await aigw(['logout'])).exitCode).toBe(0)
  })

  test('a key command is run for its own gateway, and its failure shows no key', async () => {
    await login()
    await aigw(['logout'])
    const path = join(home, 'aigw', 'config.yaml')
    const withCommand = async (command: string) =>
      writeFile(
        path,
        `current_profile: default\nprofiles:\n  default:\n    base_url: ${gateway.url}\n    key_command: ${command}\n`,
      )
    await withCommand(`echo ${KEY}`)
    expect((await aigw(['whoami'])).exitCode).toBe(0)
    await withCommand(`'echo ${KEY}; exit 3'`)
    const failed = await aigw(['whoami'])
    expect(failed.exitCode).toBe(4)
    expect(failed.stderr).toContain('key_command failed (3)')
    expect(failed.stderr).not.toContain(KEY)
  })
})

describe('the address and the answer', () => {
  test('a stalled response ends at its timeout', async () => {
    await login()
    const clock = createFakeClock()
    gateway.on('GET /api/external/whoami', (_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.write('{\n')
    })
    const stderr = captured()
    // --debug tells that the beginning of the body is there.
    stderr.stream.on('drained', () => {
      if (stderr.text().endsWith('< {\n')) clock.advance(2_000)
    })
    const io = { clock, stderr: stderr.stream }
    const { exitCode } = await aigw(['whoami', '--timeout', '2s', '--debug'], { io })
    expect(exitCode).toBe(8)
    expect(stderr.text()).toContain('not complete in time (2 s)')
    expect(clock.pending).toBe(0)
  })

  test('https to a gateway that speaks http says so, and not how OpenSSL puts it', async () => {
    const { exitCode, stderr } = await aigw(['health', '--base-url', gateway.url.replace('http:', 'https:')])
    expect(exitCode).toBe(9)
    expect(stderr).toContain('it does not speak TLS')
    expect(stderr).toContain(`--base-url ${gateway.url}`)
    expect(stderr).not.toMatch(/SSL routines|Is it running/)
  })

  test('a refused key is not sent to ask who it is', async () => {
    await login()
    gateway.on('GET /api/external/whoami', flatError(401, 'Invalid API key', 'The API key is not valid.'))
    const { stderr } = await aigw(['whoami'])
    expect(stderr).toContain('aigw login')
    expect(stderr).not.toContain('aigw whoami')
  })
})

describe('files that cannot be written or read', () => {
  test('a home that cannot be written is an error about that folder, after which no key is kept', async () => {
    const options = { stdin: KEY, env: { XDG_CONFIG_HOME: '/dev/null' } }
    const { exitCode, stderr } = await aigw(['login', '--with-token', '--base-url', gateway.url], options)
    expect(exitCode).toBe(1)
    expect(stderr).toMatch(/^error: cannot write \/dev\/null\/aigw\/credentials.yaml \(not a directory\)\n/)
    expect(stderr).not.toContain('bug')
  })

  test('signing in keeps a configuration that is a link a link, with its mode', async () => {
    const dotfiles = join(home, 'dotfiles.yaml')
    await writeFile(dotfiles, 'output: yaml\n', { mode: 0o600 })
    await mkdir(join(home, 'aigw'))
    await symlink(dotfiles, join(home, 'aigw', 'config.yaml'))
    expect((await login()).exitCode).toBe(0)
    expect((await lstat(join(home, 'aigw', 'config.yaml'))).isSymbolicLink()).toBe(true)
    expect((await stat(dotfiles)).mode & 0o777).toBe(0o600)
    expect(await readFile(dotfiles, 'utf8')).toContain(gateway.url)
    expect(await readdir(home)).toEqual(['aigw', 'dotfiles.yaml'])
  })

  test('keys get a file that only its owner may read, also when it was open before', async () => {
    await login()
    await chmod(join(home, 'aigw', 'credentials.yaml'), 0o644)
    await login(['-P', 'two'])
    expect((await stat(join(home, 'aigw', 'credentials.yaml'))).mode & 0o777).toBe(0o600)
  })

  test.each([['completion bash'], ['service unit'], ['help']])(
    '%s works without a readable configuration',
    async (line) => {
      await mkdir(join(home, 'aigw'))
      await writeFile(join(home, 'aigw', 'config.yaml'), 'profiles: [')
      const { exitCode, stdout } = await aigw(line.split(' '))
      expect(exitCode).toBe(0)
      expect(stdout).not.toBe('')
    },
  )
})

describe('profiles', () => {
  test.each(['we ird/..', '', '-x', '__proto__'])('signing in creates none called %j', async (name) => {
    expect((await login([`--profile=${name}`])).exitCode).toBe(2)
    expect([await credentials(), await config()]).toEqual([undefined, undefined])
  })

  test.each(['constructor', 'toString', '__proto__'])(
    'there is none called %s until somebody makes it',
    async (name) => {
      const { exitCode, stderr } = await aigw(['whoami', '-P', name])
      expect(exitCode).toBe(2)
      expect(stderr).toContain(`there is no profile '${name}'`)
      expect((await aigw(['logout', '-P', name])).stderr).toContain('has no stored key')
    },
  )

  test('a setting called like a member of every object is unknown too', async () => {
    await mkdir(join(home, 'aigw'))
    await writeFile(join(home, 'aigw', 'config.yaml'), 'constructor: 1\n')
    expect((await aigw(['whoami'])).stderr).toContain('constructor is not a known setting')
  })

  test('are listed, chosen, renamed with their key, and removed with it', async () => {
    await login(['-P', 'one'])
    await login(['-P', 'two'])
    expect((await aigw(['profiles', 'list'])).stdout).toBe(
      `name\tcurrent\tbase_url\tkey\none\tfalse\t${gateway.url}\tstored\ntwo\ttrue\t${gateway.url}\tstored\n`,
    )
    expect((await aigw(['profiles', 'use', 'one'])).exitCode).toBe(0)
    expect((await aigw(['profiles', 'rename', 'one', 'main'])).exitCode).toBe(0)
    expect((await aigw(['whoami'])).exitCode).toBe(0)
    expect((await aigw(['profiles', 'rename', 'main', 'two'])).exitCode).toBe(6)
    expect((await aigw(['profiles', 'use', 'nope'])).exitCode).toBe(3)
    expect((await aigw(['profiles', 'remove', 'main', '--yes'])).exitCode).toBe(0)
    expect(await config()).not.toContain('main')
    expect(await credentials()).not.toContain('main')
    expect((await aigw(['profiles', 'rm', 'main', '--yes'])).exitCode).toBe(3)
    expect((await aigw(['profiles', 'rm', 'main', '--ignore-not-found'])).exitCode).toBe(0)
  })

  test('take their last conversation along when they are renamed, and it is removed with them', async () => {
    const state = join(home, 'state')
    const kept = () => readdir(join(state, 'aigw'))
    const env = { XDG_STATE_HOME: state }
    await login(['-P', 'one'])
    await aigw(['chat', '-m', 'local/extract', '--no-stdin', 'hi'], { env })
    expect(await kept()).toEqual(['conversation-one.json'])
    await aigw(['profiles', 'rename', 'one', 'two'], { env })
    expect(await kept()).toEqual(['conversation-two.json'])
    expect((await aigw(['chat', '-c', '-m', 'local/extract', '--no-stdin', 'and?'], { env })).exitCode).toBe(0)
    await aigw(['profiles', 'remove', 'two', '--dry-run'], { env })
    expect(await kept()).toEqual(['conversation-two.json'])
    await aigw(['profiles', 'remove', 'two', '--yes'], { env: { ...env, AIGW_NO_HISTORY: '1' } })
    expect(await kept()).toEqual([])
  })

  test('removing without --yes is rejected without a terminal', async () => {
    await login()
    const { exitCode, stderr } = await aigw(['profiles', 'remove', 'default'])
    expect(exitCode).toBe(2)
    expect(stderr).toContain('--yes')
    expect(await credentials()).toContain(KEY)
  })

  test('changing them keeps the comments and the other settings of the file', async () => {
    await login(['-P', 'one'])
    const path = join(home, 'aigw', 'config.yaml')
    await writeFile(path, `# mine\noutput: yaml # I like it\n${await config()}`)
    await aigw(['profiles', 'rename', 'one', 'two'])
    expect(await config()).toContain('# mine\noutput: yaml # I like it\n')
  })

  test('a mistake in the file is named with its key, and profiles can still not be guessed', async () => {
    await login()
    await writeFile(join(home, 'aigw', 'config.yaml'), 'profiles:\n  work:\n    url: http://x\n')
    const { exitCode, stderr } = await aigw(['whoami'])
    expect(exitCode).toBe(2)
    expect(stderr).toContain('config.yaml: profiles.work.url is not a known setting')
  })
})
