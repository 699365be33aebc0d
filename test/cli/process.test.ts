import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdir, mkdtemp, open, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { COMMAND_GROUPS, type Entry } from '../../src/cli/commands/command-table.ts'
import { sign } from '../../src/shared/webhook-signature.ts'
import { noteOf, SMALL_CHAIN, serveEvidence } from './evidence-routes.ts'
import {
  answer,
  chunkFrame,
  DELIVERY_ID,
  type FakeGateway,
  KEY,
  metadataFrame,
  startFakeGateway,
  stream,
  toEvents,
  USAGE_FRAME,
} from './fake-gateway.ts'
import { type InstalledCli, installCli } from './installed-cli.ts'
import { runCli } from './run-cli.ts'

/** `aigwd db` prints a report with some member. */
const FAKE_DAEMON = 'if (process.argv[2] === \'db\') console.log(\'{"bytes":1,"findings":[{"check":"engine"}]}\')\n'

/** Keeps a daemon of a test from outliving a test that fails. */
const ENDS_WITH_PARENT = "new (require('node:net').Socket)({ fd: 3 }).on('close', () => process.exit(9)).resume()"

const CHAT = 'POST /api/external/chat/completions'

let cli: InstalledCli
let gateway: FakeGateway
beforeAll(async () => {
  cli = await installCli()
})
afterAll(() => cli.remove())
beforeEach(async () => {
  gateway = await startFakeGateway()
  serveEvidence(gateway)
})
afterEach(() => gateway.close())

const env = (more: Record<string, string> = {}) => ({ AIGW_BASE_URL: gateway.url, EDITOR: 'true', ...more })

/** A configuration of its own for each run, since some commands change it. */
async function freshConfig(): Promise<string> {
  const folder = await mkdtemp(join(cli.folder, 'config-'))
  await mkdir(join(folder, 'aigw'))
  const profiles = `profiles:\n  default: { base_url: ${gateway.url} }\n  old: { base_url: ${gateway.url} }\n`
  await writeFile(join(folder, 'aigw/config.yaml'), `current_profile: default\n${profiles}`)
  const keys = `keys:\n  default: { origin: ${gateway.url}, key: ${KEY} }\n`
  await writeFile(join(folder, 'aigw/credentials.yaml'), keys, { mode: 0o600 })
  return folder
}

/** One line, which can be the body, the secret and a text. */
const SIGNED_FILE = join(import.meta.dirname, '../fixtures/webhook-secret.txt')
const SIGNED = readFileSync(SIGNED_FILE)
const SIGNED_AT = '1767225600'
const SIGNATURE = sign(SIGNED, [SIGNED.toString().trim()], Number(SIGNED_AT))

/** A directory that is made and replaced. */
const EXPORTED = join(tmpdir(), `aigw-cli-export-${process.pid}`)
afterAll(() => rm(EXPORTED, { recursive: true, force: true }))
const REPORTS = join(tmpdir(), `aigw-cli-reports-${process.pid}.jsonl`)
afterAll(() => rm(REPORTS, { force: true }))

const INITIAL = join(tmpdir(), `aigw-cli-init-${process.pid}.yaml`)
afterAll(() => rm(INITIAL, { force: true }))

const NOTE_FILE = join(tmpdir(), `aigw-cli-note-${process.pid}.txt`)
beforeAll(() => writeFile(NOTE_FILE, noteOf(SMALL_CHAIN, 7)))
afterAll(() => rm(NOTE_FILE, { force: true }))

type Sample = {
  words: string[]
  /** What stdout holds: data in any format, an empty list (nothing on a terminal), a text of its own, or nothing. */
  prints: 'data' | 'empty list' | 'text' | 'nothing'
}

const SAMPLES: Record<string, Sample> = {
  chat: { words: ['-m', 'local/extract', 'hi'], prints: 'text' },
  'models list': { words: [], prints: 'data' },
  'models show': { words: ['local/extract'], prints: 'data' },
  // Its times differ from run to run.
  'models test': { words: ['local/extract', '--fields', 'model,prompt_tokens'], prints: 'data' },
  'groups create': { words: ['support', '-d', 'Tier 1'], prints: 'data' },
  'groups list': { words: [], prints: 'data' },
  'groups show': { words: ['support'], prints: 'data' },
  'groups update': { words: ['support', '-d', 'Tier 1'], prints: 'data' },
  'groups delete': { words: ['support', '--yes'], prints: 'nothing' },
  'groups members add': { words: ['support', 'f'.repeat(24)], prints: 'data' },
  'groups members remove': { words: ['support', 'ada@example.com'], prints: 'data' },
  'roles create': { words: ['auditor', '--display-name', 'Auditor', '-d', 'Reads along'], prints: 'data' },
  'roles list': { words: [], prints: 'data' },
  'roles show': { words: ['auditor'], prints: 'data' },
  'roles update': { words: ['auditor', '--no-chat'], prints: 'data' },
  'roles delete': { words: ['auditor', '--yes'], prints: 'nothing' },
  'roles sections': { words: [], prints: 'data' },
  'users create': { words: ['Ada', '--email', 'ada@example.com'], prints: 'data' },
  'users list': { words: [], prints: 'data' },
  'users show': { words: ['ada@example.com'], prints: 'data' },
  'users update': { words: ['ada', '--license', 'Growth'], prints: 'data' },
  'users disable': { words: ['ada'], prints: 'data' },
  'users enable': { words: ['ada'], prints: 'data' },
  'users delete': { words: ['ada', '--yes'], prints: 'nothing' },
  'users assign-role': { words: ['ada', 'auditor'], prints: 'data' },
  'keys create': { words: ['--name', 'ci'], prints: 'data' },
  'keys list': { words: [], prints: 'data' },
  'keys show': { words: ['5'.repeat(24)], prints: 'data' },
  'keys update': { words: ['ci', '--daily', 'none'], prints: 'data' },
  'keys rotate': { words: ['ci', '--yes'], prints: 'data' },
  'keys revoke': { words: ['ci', '--yes'], prints: 'nothing' },
  'tenants create': {
    words: ['acme', '--admin-name', 'Ada', '--admin-email', 'ada@example.com'],
    prints: 'data',
  },
  'tenants list': { words: [], prints: 'data' },
  'tenants show': { words: ['acme'], prints: 'data' },
  'tenants admin-key': { words: ['acme'], prints: 'data' },
  'tenants disable': { words: ['acme'], prints: 'data' },
  'tenants enable': { words: ['acme'], prints: 'data' },
  'webhooks create': { words: ['--url', 'https://example.com/hook'], prints: 'data' },
  'webhooks list': { words: [], prints: 'data' },
  'webhooks show': { words: ['https://example.com/hook'], prints: 'data' },
  'webhooks update': { words: ['https://example.com/hook', '--event', 'pii:incident'], prints: 'data' },
  'webhooks enable': { words: ['7'.repeat(24)], prints: 'data' },
  'webhooks disable': { words: ['7'.repeat(24)], prints: 'data' },
  'webhooks delete': { words: ['7'.repeat(24), '--yes'], prints: 'nothing' },
  'webhooks rotate-secret': { words: ['7'.repeat(24), '--yes'], prints: 'data' },
  'webhooks test': { words: ['7'.repeat(24), '--wait'], prints: 'data' },
  'webhooks events': { words: ['--sample', 'pii:incident'], prints: 'data' },
  'webhooks verify': {
    words: [SIGNED_FILE, '--secret-file', SIGNED_FILE, '--signature', SIGNATURE, '--now', SIGNED_AT],
    prints: 'data',
  },
  'webhooks sign': { words: [SIGNED_FILE, '--secret-file', SIGNED_FILE, '--timestamp', SIGNED_AT], prints: 'data' },
  'webhooks deliveries list': { words: [], prints: 'data' },
  'webhooks deliveries show': { words: [DELIVERY_ID], prints: 'data' },
  'webhooks deliveries resend': { words: [DELIVERY_ID], prints: 'data' },
  'webhooks recover': { words: ['7'.repeat(24), '--since', '2026-01-01'], prints: 'data' },
  'webhooks listen': { words: ['--limit', '1'], prints: 'data' },
  'webhooks trigger': { words: ['pii:incident'], prints: 'data' },
  'policies list': { words: [], prints: 'data' },
  'policies show': { words: ['ours'], prints: 'data' },
  'policies create': { words: ['Ours', '-d', 'About us', '--set', 'pii.action=mask'], prints: 'data' },
  'policies update': { words: ['ours', '--set', 'pii.action=mask'], prints: 'data' },
  'policies delete': { words: ['ours', '--yes'], prints: 'nothing' },
  'policies activate': { words: ['ours'], prints: 'data' },
  'policies diff': { words: ['internal', 'ours'], prints: 'data' },
  'policies check': { words: [SIGNED_FILE, '-m', 'local/extract'], prints: 'data' },
  'shield check': { words: [SIGNED_FILE], prints: 'data' },
  'shield explain': { words: ['-f', SIGNED_FILE], prints: 'data' },
  'shield report': { words: ['--miss', 'hi', '--to', REPORTS], prints: 'data' },
  'shield policies list': { words: [], prints: 'data' },
  'shield policies show': { words: ['ours'], prints: 'data' },
  'shield policies create': { words: ['Ours', '--set', 'sensitivity=strict'], prints: 'data' },
  'shield policies update': { words: ['ours', '-d', 'About us'], prints: 'data' },
  'shield policies delete': { words: ['ours', '--yes'], prints: 'nothing' },
  'guard-rules list': { words: [], prints: 'data' },
  'guard-rules show': { words: ['ours'], prints: 'data' },
  'guard-rules create': { words: ['Ours', '--kind', 'dlp', '--word', 'Falcon'], prints: 'data' },
  'guard-rules update': { words: ['ours', '--action', 'mask'], prints: 'data' },
  'guard-rules delete': { words: ['ours', '--yes'], prints: 'nothing' },
  'guard-rules simulate': { words: [SIGNED_FILE, '--rule', 'ours'], prints: 'data' },
  'incidents list': { words: ['--since', '7d'], prints: 'data' },
  'incidents show': { words: ['9'.repeat(24)], prints: 'data' },
  'incidents counts': { words: [], prints: 'data' },
  'receipts show': { words: ['jti-1'], prints: 'data' },
  'receipts bundle': { words: ['jti-1'], prints: 'data' },
  'receipts verify': { words: ['jti-1'], prints: 'data' },
  'audit verify': { words: [], prints: 'data' },
  'audit checkpoint': { words: [], prints: 'data' },
  // When it was made differs from run to run.
  'audit export': { words: [EXPORTED, '--yes', '--fields', 'directory,entries'], prints: 'data' },
  'audit consistency': { words: [NOTE_FILE, NOTE_FILE], prints: 'data' },
  'audit losses': { words: [], prints: 'data' },
  'audit forget': { words: ['--yes'], prints: 'nothing' },
  'audit reconcile': { words: ['--month', '2026-01'], prints: 'empty list' },
  'audit rotate-key': { words: ['--yes'], prints: 'data' },
  'secrets rotate-master': { words: ['--yes'], prints: 'data' },
  'secrets status': { words: [], prints: 'data' },
  'logs list': { words: ['--since', '7d'], prints: 'data' },
  'logs tail': { words: ['--limit', '1'], prints: 'data' },
  'logs show': { words: ['jti-1'], prints: 'data' },
  'usage show': { words: [], prints: 'data' },
  'usage report': { words: ['--by', 'user,tag'], prints: 'data' },
  'budgets create': { words: ['--tag', 'team-a', '--limit', '250'], prints: 'data' },
  'budgets list': { words: [], prints: 'data' },
  'budgets show': { words: ['team-a'], prints: 'data' },
  'budgets update': { words: ['team-a', '--limit', '300'], prints: 'data' },
  'budgets delete': { words: ['team-a', '--yes'], prints: 'nothing' },
  'cache show': { words: [], prints: 'data' },
  'cache clear': { words: ['--yes'], prints: 'data' },
  'indexes create': { words: ['handbook'], prints: 'data' },
  'indexes list': { words: [], prints: 'data' },
  'indexes add': { words: ['handbook', join(import.meta.dirname, '../../docs')], prints: 'data' },
  'indexes show': { words: ['handbook'], prints: 'data' },
  'indexes update': { words: ['handbook', '-d', 'All about us'], prints: 'data' },
  'indexes delete': { words: ['handbook', '--yes'], prints: 'nothing' },
  'indexes docs': { words: ['handbook'], prints: 'data' },
  'indexes remove': { words: ['handbook', 'leave.md', '--yes'], prints: 'nothing' },
  'indexes rebuild': { words: ['handbook'], prints: 'data' },
  'indexes search': { words: ['handbook', 'leave'], prints: 'data' },
  init: { words: ['--config', INITIAL, '--force', '--provider', 'ollama'], prints: 'data' },
  serve: { words: ['--check'], prints: 'nothing' },
  status: { words: [], prints: 'data' },
  // Its times differ from run to run.
  doctor: { words: ['--fields', 'check,status'], prints: 'data' },
  health: { words: [], prints: 'data' },
  reload: { words: [], prints: 'data' },
  'providers list': { words: [], prints: 'data' },
  'providers show': { words: ['house'], prints: 'data' },
  'providers add': { words: ['house', '--address', 'http://10.0.0.5:8000/v1'], prints: 'data' },
  'providers update': { words: ['house', '--model', 'small'], prints: 'data' },
  'providers test': { words: ['house'], prints: 'data' },
  'providers remove': { words: ['house', '--yes'], prints: 'nothing' },
  'db status': { words: [], prints: 'data' },
  'db check': { words: [], prints: 'data' },
  'db backup': { words: [tmpdir(), '--unencrypted'], prints: 'data' },
  'db restore': { words: ['backup.tar.gz'], prints: 'data' },
  'db migrate': { words: [], prints: 'data' },
  'db prune': { words: [], prints: 'data' },
  'db vacuum': { words: [], prints: 'data' },
  'service unit': { words: [], prints: 'text' },
  login: { words: [], prints: 'data' },
  logout: { words: [], prints: 'nothing' },
  whoami: { words: [], prints: 'data' },
  'profiles list': { words: [], prints: 'data' },
  'profiles use': { words: ['old'], prints: 'nothing' },
  'profiles rename': { words: ['old', 'new'], prints: 'nothing' },
  'profiles remove': { words: ['old', '--yes'], prints: 'nothing' },
  'config get': { words: ['current_profile'], prints: 'data' },
  'config set': { words: ['chat.model', 'local/extract'], prints: 'nothing' },
  'config unset': { words: ['current_profile'], prints: 'nothing' },
  'config list': { words: [], prints: 'data' },
  'config edit': { words: [], prints: 'nothing' },
  // The names of the files differ from run to run.
  'config explain': { words: ['output', '--fields', 'value,used'], prints: 'data' },
  api: { words: ['GET', 'whoami'], prints: 'data' },
  completion: { words: ['bash'], prints: 'text' },
  version: { words: [], prints: 'data' },
  help: { words: ['chat'], prints: 'text' },
}

const pathsOf = (entries: Entry[], before = ''): string[] =>
  entries.flatMap((entry) =>
    'verbs' in entry ? pathsOf(entry.verbs, `${before}${entry.name} `) : `${before}${entry.name}`,
  )
const COMMANDS = pathsOf(COMMAND_GROUPS.flatMap((group) => group.entries))

describe('every command', () => {
  test('has a sample here', () => {
    expect(Object.keys(SAMPLES).sort()).toEqual([...COMMANDS].sort())
  })

  beforeAll(() => writeFile(join(cli.folder, 'bin/aigwd.js'), FAKE_DAEMON))

  describe.each(['table', 'json'])('with -o %s', (format) => {
    test.each(COMMANDS)(
      '%s writes the same into a pipe and a file, and ends quietly when nobody reads',
      async (name) => {
        const { words, prints } = SAMPLES[name] ?? { words: [], prints: 'nothing' }
        const line = [...name.split(' '), ...words, '-o', format]
        const runEnv = async () => env({ XDG_CONFIG_HOME: await freshConfig() })

        const piped = await cli.run(line, { env: await runEnv() })
        expect(piped.stderr).not.toContain('rror:')
        expect(piped).toMatchObject({ exitCode: 0, signal: null })
        if (prints === 'nothing') expect(piped.stdout).toBe('')
        else expect(piped.stdout).toMatch(/\S/)
        if (['data', 'empty list'].includes(prints) && format === 'json')
          expect(() => JSON.parse(piped.stdout)).not.toThrow()
        expect(piped.stdout).not.toContain('\x1b')

        const path = join(cli.folder, `${name.replace(' ', '-')}-${format}.out`)
        const file = await open(path, 'w')
        await cli.run(line, { env: await runEnv(), stdio: ['ignore', file.fd, 'ignore'] })
        await file.close()
        expect(await readFile(path, 'utf8')).toBe(piped.stdout)

        const closed = cli.start(line, { env: await runEnv() })
        closed.child.stdout?.destroy()
        expect(await closed.ended).toMatchObject({ exitCode: prints === 'nothing' ? 0 : 141, signal: null })
        expect((await closed.ended).stderr).not.toContain('rror')
      },
    )
  })
})

describe('every command on a terminal', () => {
  // `serve` hands its own streams to the daemon, so it has none of its own to show. `init` and `db` run the daemon's
  // program, which only the installed copy has.
  test.each(COMMANDS.filter((name) => !/^(serve|init|db .*)$/.test(name)))('%s prints for people', async (name) => {
    const { words, prints } = SAMPLES[name] ?? { words: [], prints: 'nothing' }
    const result = await runCli([...name.split(' '), ...words], {
      terminal: { stdin: true, stdout: true, stderr: true },
      env: env({ XDG_CONFIG_HOME: await freshConfig(), AIGW_API_KEY: KEY, NO_COLOR: '1', CI: '1' }),
    })
    expect(result.exitCode).toBe(0)
    expect(result.stdout === '').toBe(prints === 'nothing' || prints === 'empty list')
    expect(`${result.stdout}${result.stderr}`).not.toMatch(/[\x00-\x08\x0b-\x1f]/)
  })
})

describe('output', () => {
  test('of several megabytes arrives whole in a pipe', async () => {
    const long = 'All work and no play. '.repeat(200_000)
    gateway.on(CHAT, answer(long))
    const { exitCode, stdout } = await cli.run(['chat', '-m', 'a/b', 'hi'], { env: env() })
    expect({ exitCode, length: stdout.length }).toEqual({ exitCode: 0, length: long.length + 1 })
  })

  test('a mistake exits 2 with a suggestion and the command for help', async () => {
    expect(await cli.run(['chta'], { env: env() })).toMatchObject({
      exitCode: 2,
      stdout: '',
      stderr: "error: unknown command 'chta'\n  Did you mean chat?\n  See:  aigw --help\n",
    })
    expect((await cli.run(['indexes', 'list', '--limti', '3'], { env: env() })).stderr).toBe(
      "error: unknown option '--limti'\n  Did you mean --limit?\n  See:  aigw indexes list --help\n",
    )
    const nested = await cli.run(['indexes', 'serach'], { env: env() })
    expect(nested.stderr).toContain('Did you mean search?')
    expect(nested.stderr).toContain('See:  aigw indexes --help')
    expect((await cli.run(['indexes'], { env: env() })).exitCode).toBe(2)
    expect(await cli.run(['groups', 'members'], { env: env() })).toMatchObject({
      exitCode: 2,
      stderr: "error: 'aigw groups members' needs a subcommand\n  See:  aigw groups members --help\n",
    })
    expect((await cli.run(['groups', 'members', 'ad', '--help'], { env: env() })).stderr).toContain('Did you mean add?')
    expect((await cli.run(['help', 'groups', 'members', 'add'])).stdout).toContain('Usage: aigw groups members add')
  })

  test('a mistake is a JSON line where JSON was asked for, on either side of the command', async () => {
    for (const words of [
      ['-o', 'json', 'chta'],
      ['indexes', 'list', '--nope', '--json'],
    ]) {
      const { stderr } = await cli.run(words, { env: env() })
      expect(JSON.parse(stderr)).toMatchObject({ code: 'USAGE', exit_code: 2, http_status: null, retryable: false })
    }
  })

  test('global flags work before and after the command, and the last one applies', async () => {
    const before = await cli.run(['-o', 'tsv', '--fields', 'name', 'indexes', 'list'], { env: env() })
    const after = await cli.run(['indexes', 'list', '-o', 'tsv', '--fields', 'name'], { env: env() })
    expect(before.stdout).toBe('name\nhandbook\nfaq\n')
    expect(after.stdout).toBe(before.stdout)
    const both = await cli.run(['-o', 'json', 'indexes', '--no-headers', 'list', '-o', 'tsv', '--fields', 'name'], {
      env: env(),
    })
    expect(both.stdout).toBe('handbook\nfaq\n')
  })
})

describe.runIf(process.platform === 'linux')('a full disk', () => {
  test.each([
    ['version', ['version']],
    ['a list', ['indexes', 'list']],
    ['help', ['--help']],
    ['an answer', ['chat', '-m', 'a/b', 'hi']],
  ])('a write failure of %s is reported in words and exits 1', async (_, words) => {
    const full = await open('/dev/full', 'w')
    const { exitCode, stderr } = await cli.run(words, { env: env(), stdio: ['ignore', full.fd, 'pipe'] })
    await full.close()
    expect({ exitCode, stderr }).toEqual({
      exitCode: 1,
      stderr: 'error: cannot write the output (no space left on device)\n',
    })
  })
})

describe('stdin', () => {
  const prompts = () => gateway.requests.map(({ json }) => Reflect.get(Object(json), 'prompt'))

  test('is the prompt, or comes before it', async () => {
    await cli.run(['chat', '-m', 'a/b'], { env: env(), input: 'From a pipe\n' })
    await cli.run(['chat', '-m', 'a/b', 'Why', 'this?'], { env: env(), input: 'From a pipe\n' })
    expect(prompts()).toEqual(['From a pipe', 'From a pipe\n\nWhy this?'])
  })

  test('from a file is read, from /dev/null and with --no-stdin it is not', async () => {
    const path = join(cli.folder, 'prompt.txt')
    await writeFile(path, 'From a file')
    const file = await open(path)
    await cli.run(['chat', '-m', 'a/b', 'Why?'], { env: env(), stdio: [file.fd, 'pipe', 'pipe'] })
    await file.close()
    await cli.run(['chat', '-m', 'a/b', 'Why?'], { env: env() })
    await cli.run(['chat', '-m', 'a/b', '--no-stdin', 'Why?'], { env: env(), input: 'ignored' })
    expect(prompts()).toEqual(['From a file\n\nWhy?', 'Why?', 'Why?'])
  })

  test('may be one of the files, and may hold the key instead', async () => {
    await cli.run(['chat', '-m', 'a/b', '-f', '-', 'Why?'], { env: env(), input: 'x' })
    await cli.run(['chat', '-m', 'a/b', '--api-key-file', '-', 'Why?'], { env: env({ AIGW_API_KEY: '' }), input: KEY })
    expect(prompts()).toEqual(['```stdin\nx\n```\n\nWhy?', 'Why?'])
  })

  test('without anything in it and no prompt is a mistake', async () => {
    expect(await cli.run(['chat', '-m', 'a/b'], { env: env() })).toMatchObject({ exitCode: 2 })
    expect(gateway.requests).toEqual([])
  })
})

describe('signals', () => {
  test.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('%s while an answer streams ends the request and exits %i', async (name, exitCode) => {
    const requestClosed = new Promise<void>((resolve) => {
      gateway.on(CHAT, (_, response) => {
        response.on('close', resolve)
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write(toEvents([metadataFrame(), chunkFrame('You have')], { done: false }))
      })
    })
    const { child, ended } = cli.start(['chat', '-m', 'a/b', 'hi'], { env: env() })
    if (child.stdout !== null) await once(child.stdout, 'data')
    child.kill(name)
    await requestClosed
    expect(await ended).toEqual({ exitCode, signal: null, stdout: 'You have', stderr: '' })
  })

  test('a reader that leaves in the middle of an answer ends it with 141', async () => {
    gateway.on(CHAT, (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(toEvents([metadataFrame(), chunkFrame('You have')], { done: false }))
      const more = () => {
        if (!response.destroyed)
          response.write(toEvents([chunkFrame(' more')], { done: false }), () => setImmediate(more))
      }
      more()
    })
    const { child, ended } = cli.start(['chat', '-m', 'a/b', 'hi'], { env: env() })
    child.stdout?.once('data', () => child.stdout?.destroy())
    expect(await ended).toMatchObject({ exitCode: 141, signal: null, stderr: '' })
  })

  test('serve runs the daemon with its flags, passes each signal on once and takes over its exit code', async () => {
    const daemon = `
      let signals = 0
      ${ENDS_WITH_PARENT}
      process.on('SIGTERM', () => { signals++; console.log('term', signals); if (signals === 2) process.exit(7) })
      setInterval(() => {}, 1e9)
      console.log(JSON.stringify(process.argv.slice(2)))`
    await writeFile(join(cli.folder, 'bin/aigwd.js'), daemon)
    const { child, ended } = cli.start(['serve', '--listen', '127.0.0.1:0', '--data-dir', '/tmp/x'])
    if (child.stdout === null) throw new Error('no stdout')
    await once(child.stdout, 'data')
    child.kill('SIGTERM')
    await once(child.stdout, 'data')
    child.kill('SIGTERM')
    expect(await ended).toMatchObject({
      exitCode: 7,
      stdout: '["--listen","127.0.0.1:0","--data-dir","/tmp/x"]\nterm 1\nterm 2\n',
    })
  })

  test('serve turns SIGHUP into SIGTERM, so that closing the terminal drains the daemon', async () => {
    await writeFile(
      join(cli.folder, 'bin/aigwd.js'),
      `${ENDS_WITH_PARENT}
       process.on('SIGTERM', () => { console.log('drained'); process.exit(0) })
       setInterval(() => {}, 1e9)
       console.log('ready')`,
    )
    const { child, ended } = cli.start(['serve'])
    if (child.stdout === null) throw new Error('no stdout')
    await once(child.stdout, 'data')
    child.kill('SIGHUP')
    expect(await ended).toMatchObject({ exitCode: 0, stdout: 'ready\ndrained\n' })
  })

  test('the daemon sees the pipe of its parent close when serve is killed with -9', async () => {
    await writeFile(
      join(cli.folder, 'bin/aigwd.js'),
      `const { Socket } = require('node:net')
       const pipe = new Socket({ fd: Number(process.env.AIGW_PARENT_PIPE) })
       pipe.on('close', () => { console.log('alone'); process.exit(0) }).resume()
       console.log('ready')`,
    )
    const { child, ended } = cli.start(['serve'])
    if (child.stdout === null) throw new Error('no stdout')
    await once(child.stdout, 'data')
    child.kill('SIGKILL')
    // The daemon holds the same stdout, so its end is the daemon's end.
    expect(await ended).toMatchObject({ signal: 'SIGKILL', stdout: 'ready\nalone\n' })
  })

  test('serve reports the signal that killed the daemon', async () => {
    await writeFile(join(cli.folder, 'bin/aigwd.js'), 'process.kill(process.pid, "SIGKILL")')
    expect(await cli.run(['serve'])).toMatchObject({ exitCode: 137, signal: null })
  })
})

test('a stream without its end is a failure for a script as well', async () => {
  gateway.on(CHAT, stream(toEvents([metadataFrame(), chunkFrame('You', 'stop'), USAGE_FRAME], { done: false })))
  const script = `node ${join(cli.folder, 'bin/aigw.js')} chat -m a/b hi < /dev/null || echo "failed $?"`
  const options = { env: { ...process.env, ...env(), AIGW_API_KEY: KEY, HOME: cli.folder } }
  const { stdout } = await promisify(execFile)('sh', ['-c', script], options)
  expect(stdout).toBe('Youfailed 8\n')
})

test('the configuration folder is not left behind by a login that fails', async () => {
  const folder = await mkdtemp(join(cli.folder, 'config-'))
  await cli.run(['login'], { env: env({ XDG_CONFIG_HOME: folder, AIGW_API_KEY: 'sk-wrong' }) })
  expect(await readdir(folder)).toEqual([])
  await rm(folder, { recursive: true })
})
