import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject, test } from 'vitest'
import { newApiKey } from '../../../src/shared/ids.ts'
import { type InstalledCli, installCli } from '../../cli/installed-cli.ts'
import { watchStore } from '../../kept-texts.ts'
import { chatJson, replyJson, startUpstream } from '../../upstream.ts'
import { type DaemonProcess, runDaemon } from '../daemon-process.ts'
import { type Block, blocksOf, openPageSession, type PageSession } from './page-session.ts'

let cli: InstalledCli
beforeAll(async () => {
  cli = await installCli()
})
afterAll(() => cli.remove())

let home: string
let operatorKey: string
let daemon: DaemonProcess
let session: PageSession | undefined
beforeEach(async () => {
  home = await mkdtemp(join(cli.folder, 'home-'))
  operatorKey = newApiKey()
  await writeFile(join(home, 'operator.key'), operatorKey, { mode: 0o600 })
  session = undefined
})
afterEach(async () => {
  await session?.close()
  await daemon.end('SIGTERM')
  await rm(home, { recursive: true })
})

const start = (env: Record<string, string> = {}, args: string[] = []) => {
  const all = ['--listen', '127.0.0.1:0', '--data-dir', join(home, 'data'), ...args]
  daemon = runDaemon(all, { home, env: { AIGW_BOOTSTRAP_KEY: operatorKey, ...env } })
  return daemon.url()
}

/** Runs code blocks of a page in the test's folder, with `aigw` on the path, against the gateway at that URL. */
async function run(blocks: readonly Block[], url: string, replaced: Record<string, string> = {}): Promise<void> {
  const bin = join(home, 'bin')
  await mkdir(bin, { recursive: true })
  await executable(join(bin, 'aigw'), `exec '${process.execPath}' '${join(cli.folder, 'bin/aigw.js')}' "$@"\n`)
  await session?.close()
  session = await openPageSession(home, {
    PATH: [bin, process.env.PATH ?? ''].join(delimiter),
    HOME: home,
    AIGW_BASE_URL: url,
    AIGW_API_KEY_FILE: join(home, 'operator.key'),
  })
  const withPlaces = (text: string) =>
    Object.entries(replaced).reduce((changed, [from, to]) => changed.replaceAll(from, to), text)
  await session.run(blocks.map((block) => ({ ...block, text: withPlaces(block.text) })))
}

const executable = async (file: string, script: string) => {
  await writeFile(file, `#!/bin/sh\n${script}`)
  await chmod(file, 0o755)
}

const under = (page: string, heading: string) => blocksOf(page).filter((block) => block.heading === heading)

test('a backup made as on the page can be restored as on the page', async () => {
  const page = 'docs/how-to/back-up-and-restore.md'
  const places = { '/var/lib/aigw': join(home, 'data'), '/backup': join(home, 'backup') }
  let url = await start()
  const env = { AIGW_BASE_URL: url, AIGW_API_KEY: operatorKey }
  expect(await cli.run(['groups', 'create', 'support', '-d', 'Tier 1'], { env })).toMatchObject({ exitCode: 0 })
  await run(under(page, 'Back up'), url, places)
  expect(await cli.run(['groups', 'delete', 'support', '--yes'], { env })).toMatchObject({ exitCode: 0 })
  await daemon.end('SIGTERM')

  const [replace, ...checks] = under(page, 'Restore SQLite')
  if (replace === undefined) throw new Error('the page has no commands')
  await run([replace], url, places)
  url = await start()
  await run(checks, url, places)
  const groups = await cli.run(['groups', 'list', '--field', 'name'], { env: { ...env, AIGW_BASE_URL: url } })
  expect(groups).toMatchObject({ exitCode: 0, stdout: 'support\n' })
})

test('the commands of the page about rotating secrets work, and end what they rotate', async () => {
  // Nothing is delivered. The receiver only needs an address that may be registered.
  const url = await start({ WEBHOOKS_ALLOW_PRIVATE: 'true' })
  const env = { AIGW_BASE_URL: url, AIGW_API_KEY: operatorKey }
  const aigw = async (...words: string[]) => {
    const result = await cli.run(words, { env })
    expect(result, result.stderr).toMatchObject({ exitCode: 0 })
    return result.stdout
  }
  await aigw('users', 'create', 'Ben Franklin', '--email', 'ben@acme.example')
  await aigw('tenants', 'create', 'acme', '--admin-name', 'Ada', '--admin-email', 'ada@acme.example', '-q')
  const keyFile = join(home, 'desk.key')
  await aigw('keys', 'create', '--name', 'desk', '--user', 'ben@acme.example', '--save-to', keyFile, '-q')
  const hook = ['--url', 'http://127.0.0.1:1080/aigw', '--save-to', join(home, 'hook.secret')]
  await aigw('webhooks', 'create', ...hook, '-q')

  await run(blocksOf('docs/how-to/rotate-secrets.md'), url, {
    'https://hooks.example.com/aigw': 'http://127.0.0.1:1080/aigw',
  })
  const whoami = (file: string) =>
    cli.run(['whoami', '--api-key-file', file], { env: { AIGW_BASE_URL: url, AIGW_API_KEY: '' } })
  for (const ended of ['desk.key', 'desk.new.key'])
    expect(await whoami(join(home, ended))).toMatchObject({ exitCode: 4 })
  for (const works of ['desk-2.key', 'acme.new.key'])
    expect(await whoami(join(home, works))).toMatchObject({ exitCode: 0 })
  const { keys } = JSON.parse(await aigw('api', 'GET', '/.well-known/aigw-keys.json')) as { keys: { status: string }[] }
  expect(keys.map(({ status }) => status).sort()).toEqual(['active', 'retired'])

  // The last step for the operator key, which the page describes without a command.
  await daemon.end('SIGTERM')
  const next = newApiKey()
  const after = await start({ AIGW_BOOTSTRAP_KEY: next })
  const asOperator = (key: string) => cli.run(['tenants', 'list'], { env: { AIGW_BASE_URL: after, AIGW_API_KEY: key } })
  expect(await asOperator(operatorKey)).toMatchObject({ exitCode: 4 })
  expect(await asOperator(next)).toMatchObject({ exitCode: 0 })
})

test('the commands of the page about users and keys work, and delete the user at the end', async () => {
  const url = await start()
  await run(blocksOf('docs/how-to/manage-users-and-keys.md'), url)
  const env = { AIGW_BASE_URL: url, AIGW_API_KEY: operatorKey }
  const users = await cli.run(['users', 'list', '--field', 'name'], { env })
  expect(users).toMatchObject({ exitCode: 0, stdout: 'Administrator\n' })
})

test('a gateway moves to PostgreSQL as the page says, and what the page names is carried over', async () => {
  const page = 'docs/how-to/use-postgresql.md'
  await run(under(page, '2. Save what you can take along'), await start())
  await daemon.end('SIGTERM')
  const server = new pg.Client({ connectionString: `${inject('postgresServer')}/postgres` })
  await server.connect()
  const url = new URL(`${inject('postgresServer')}/aigw`)
  url.username = 'aigw'
  url.password = 'change-me'
  try {
    const [sql] = under(page, '1. Prepare the database')
    for (const statement of sql?.text.split(';\n') ?? []) await server.query(statement)
    await writeFile(join(home, 'database-url'), `${url}\n`)
    const [yaml] = under(page, '3. Configure the daemon')
    await writeFile(join(home, 'aigw.yaml'), yaml?.text.replace('/etc/aigw/secrets', home) ?? '')
    await run(under(page, '4. Create the content again'), await start({}, ['--config', join(home, 'aigw.yaml')]))
    await daemon.end('SIGTERM')
    // Switch back to SQLite, as the last sentence describes. The keys of the export sign its log.
    await rm(join(home, 'aigw.yaml'))
    const env = { AIGW_BASE_URL: await start(), AIGW_API_KEY: operatorKey }
    const keys = join(home, 'evidence-before-move/keys.json')
    const before = await cli.run(['audit', 'verify', '--keys', keys], { env })
    expect(before).toMatchObject({ exitCode: 0 })
    await watchStore({ kind: 'postgres', url: url.href })
  } finally {
    await server.query('drop database if exists aigw with (force)')
    await server.query('drop role if exists aigw')
    await server.end()
  }
})

test('a provider configured as on the page answers its commands', async () => {
  const upstream = await startUpstream()
  upstream.fallback(replyJson(chatJson('Hello.', { usage: { prompt_tokens: 3, completion_tokens: 2 } })))
  try {
    const [yaml] = under('docs/how-to/add-a-provider.md', 'Your own server')
    await writeFile(join(home, 'aigw.yaml'), yaml?.text.replace('http://10.0.0.5:8000/v1', upstream.url) ?? '')
    const url = await start({}, ['--config', join(home, 'aigw.yaml')])
    await run(under('docs/how-to/add-a-provider.md', 'Check it'), url)
  } finally {
    await upstream.close()
  }
})

test('every YAML example of the how-to pages is a valid configuration', async () => {
  await writeFile(join(home, 'house-key'), 'sk-house\n')
  await writeFile(join(home, 'database-url'), 'postgres://aigw@127.0.0.1/aigw\n')
  for (const name of ['use-nginx', 'use-postgresql', 'add-a-provider'])
    for (const { language, text } of blocksOf(`docs/how-to/${name}.md`)) {
      if (language !== 'yaml') continue
      await writeFile(join(home, 'aigw.yaml'), text.replaceAll('/etc/aigw/secrets', home))
      daemon = runDaemon(['--config', join(home, 'aigw.yaml'), '--check'], { home, env: { MISTRAL_API_KEY: 'sk-m' } })
      expect(await daemon.ended, text).toMatchObject({ code: 0, stderr: '' })
    }
})
