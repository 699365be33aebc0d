import { execFile } from 'node:child_process'
import { hash } from 'node:crypto'
import { mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { CSV_HEAD, toLogLine } from '../../src/cli/evidence/csv.ts'
import { openDatabase } from '../../src/daemon/platform/db/database.ts'
import type { ChainRow } from '../../src/shared/evidence/chain-check.ts'
import { newApiKey } from '../../src/shared/ids.ts'
import { type InstalledCli, installCli } from '../cli/installed-cli.ts'
import { type DaemonProcess, runDaemon } from './daemon-process.ts'

let cli: InstalledCli
let home: string
let env: Record<string, string>
let daemon: DaemonProcess
let start: (port?: string) => Promise<string>

beforeAll(async () => {
  cli = await installCli()
})
afterAll(() => cli.remove())
beforeEach(async () => {
  home = await mkdtemp(join(cli.folder, 'home-'))
  const key = newApiKey()
  start = async (port = '0') => {
    const args = ['--listen', `127.0.0.1:${port}`, '--data-dir', join(home, 'data')]
    daemon = runDaemon(args, { home, env: { AIGW_BOOTSTRAP_KEY: key } })
    return daemon.url()
  }
  env = { AIGW_BASE_URL: await start(), AIGW_API_KEY: key, HOME: home }
})

const aigw = (...words: string[]) => cli.run(words, { env })
const good = async (...words: string[]) => {
  const result = await aigw(...words)
  expect(result.exitCode, result.stderr).toBe(0)
  return result
}
const ask = async (...words: string[]) => {
  const { stdout } = await good('chat', '-m', 'local/extract', '-o', 'json', ...words)
  return JSON.parse(stdout).metadata.smltp.bundle_id as string
}

test('a request leaves a receipt that verifies offline with only the published keys', async () => {
  const bundleId = await ask('What is this?')
  const shown = await good('receipts', 'show', bundleId, '-o', 'json')
  expect(JSON.parse(shown.stdout)).toMatchObject({ bundle_id: bundleId, outcome: 'allowed', model: 'local/extract' })
  const receipt = join(home, 'receipt.json')
  const keys = join(home, 'aigw-keys.json')
  await writeFile(receipt, shown.stdout)
  await writeFile(keys, (await good('api', 'GET', '/.well-known/aigw-keys.json')).stdout)
  await good('receipts', 'verify', bundleId)
  await good('audit', 'rotate-key', '--yes')
  await good('receipts', 'verify', bundleId)
  await good('audit', 'verify')
  await daemon.end('SIGTERM')
  await good('receipts', 'verify', receipt, '--keys', keys)
  await writeFile(receipt, shown.stdout.replace('"local/extract"', '"local/extrakt"'))
  expect(await aigw('receipts', 'verify', receipt, '--keys', keys)).toMatchObject({ exitCode: 10, stdout: '' })
})

test('its own verifier accepts an export, and a kept checkpoint reveals a restored old store', async () => {
  await ask('One')
  await good('groups', 'create', 'ops', '-d', 'On call')
  const early = join(home, 'early')
  await good('audit', 'export', early)
  const database = join(home, 'data', 'aigw.db')
  await daemon.end('SIGTERM')
  const old = await readFile(database)

  env = { ...env, AIGW_BASE_URL: await start() }
  await ask('Two')
  await ask('Three')
  const kept = join(home, 'kept.notes')
  await good('audit', 'checkpoint', '--out', kept)
  await good('audit', 'verify', '--checkpoint', kept)
  const late = join(home, 'late')
  const { stdout } = await good('audit', 'export', late, '--json')
  expect(JSON.parse(stdout).chains).toBe(2)
  const keys = join(home, 'aigw-keys.json')
  await writeFile(keys, (await good('api', 'GET', '/.well-known/aigw-keys.json')).stdout)
  await good('audit', 'verify', late, '--checkpoint', kept, '--keys', keys)
  expect((await aigw('audit', 'verify', late)).exitCode).toBe(11)
  expect((await aigw('audit', 'verify', early, '--checkpoint', kept, '--keys', keys)).exitCode).toBe(10)
  const verified = await promisify(execFile)(process.execPath, [join(late, 'verify.mjs'), '--keys', keys])
  expect(verified.stdout).toMatch(/\nThe export is valid.\n$/)
  await daemon.end('SIGTERM')

  await writeFile(database, old)
  env = { ...env, AIGW_BASE_URL: await start() }
  // This machine has seen the later log. Another machine needs the checkpoint.
  await aigw('audit', 'forget', '--yes')
  await good('audit', 'verify')
  const found = await aigw('audit', 'verify', '--checkpoint', kept)
  expect(found).toMatchObject({ exitCode: 10, stderr: expect.stringContaining('is invalid from entry') })
})

test('the remaining checkpoints reveal entries removed from the store', async () => {
  await ask('One')
  await ask('Two')
  await good('audit', 'checkpoint')
  const target = join(home, 'evidence')
  await good('audit', 'export', target)
  const cutRequests = async (from: number) => {
    const db = await openDatabase({ kind: 'sqlite', dataDir: join(home, 'data') })
    await db.deleteFrom('evidence_entries').where('chain', 'like', 'requests-%').where('seq', '>=', from).execute()
    await db.destroy()
  }
  for (const from of [1, 0]) {
    await daemon.end('SIGTERM')
    await cutRequests(from)
    env = { ...env, AIGW_BASE_URL: await start() }
    for (const words of [['verify'], ['export', join(home, 'cut')]]) {
      const { exitCode, stderr } = await aigw('audit', ...words)
      expect(exitCode, stderr).toBe(10)
      expect(stderr).toContain(`the chain has ${from} entries, but a checkpoint covers 2`)
    }
  }
  expect((await aigw('audit', 'verify', target)).exitCode).toBe(11)
})

test('an export without some payloads is rejected, even if an administrator has the gateway sign it', async () => {
  for (let at = 0; at < 6; at += 1) await ask(`Question ${at}`)
  const keys = join(home, 'aigw-keys.json')
  await writeFile(keys, (await good('api', 'GET', '/.well-known/aigw-keys.json')).stdout)
  const target = join(home, 'evidence')
  await good('audit', 'export', target)
  const read = (name: string) => readFile(join(target, name), 'utf8')
  const write = (name: string, text: string) => writeFile(join(target, name), text)
  const rows = (await read('data.ndjson')).trimEnd().split('\n')
  const cut = rows.map((line) => {
    const row: ChainRow = JSON.parse(line)
    return row.chain === 'changes' || row.seq === 0 ? row : { ...row, payload: null }
  })
  expect(cut.filter(({ payload }) => payload === null)).toHaveLength(5)
  await write('data.ndjson', cut.map((row) => `${JSON.stringify(row)}\n`).join(''))
  await write('data.csv', CSV_HEAD + cut.map(toLogLine).join(''))
  const manifest = JSON.parse(await read('manifest.json'))
  for (const file of manifest.files) {
    const text = await read(file.name)
    Object.assign(file, { sha256: hash('sha256', text, 'hex'), bytes: Buffer.byteLength(text) })
  }
  await write('manifest.json', JSON.stringify(manifest))
  const { chains, rowCount } = manifest
  const body = join(home, 'sign.json')
  const manifest_sha256 = hash('sha256', await read('manifest.json'), 'hex')
  await writeFile(body, JSON.stringify({ chains, row_count: rowCount, manifest_sha256 }))
  const signed = await good('api', 'POST', 'transparency/exports/sign', '-d', `@${body}`)
  const { kid, name, note, signature, statement } = JSON.parse(signed.stdout)
  await write('manifest.sig', JSON.stringify({ kid, name, note, signature }))
  await write('statement.json', statement)

  const says = /5 entries of chain requests-\w+ have no payload, but 0 had none in the gateway's store/
  const byCommand = await aigw('audit', 'verify', target, '--keys', keys)
  expect([byCommand.exitCode, byCommand.stderr]).toEqual([10, expect.stringMatching(says)])
  const byScript = promisify(execFile)(process.execPath, [join(target, 'verify.mjs'), '--keys', keys])
  await expect(byScript).rejects.toMatchObject({ code: 1, stdout: expect.stringMatching(says) })
})

test('logs list, show and tail agree on a request, across a restart of the daemon', async () => {
  const tail = cli.start(['logs', 'tail', '-e', 'api_access', '-o', 'ndjson'], { env })
  if (tail.child.stdout === null) throw new Error('no pipe')
  const lines = createInterface({ input: tail.child.stdout })[Symbol.asyncIterator]()
  const next = async () => JSON.parse((await lines.next()).value)
  const first = await ask('One')
  expect((await next()).id).toBe(first)
  const { port } = new URL(await Promise.resolve(env.AIGW_BASE_URL ?? ''))
  await daemon.end('SIGTERM')
  await start(port)
  const second = await ask('Two')
  const entry = await next()
  expect(entry.id).toBe(second)
  tail.child.kill('SIGINT')
  expect(await tail.ended).toMatchObject({ exitCode: 130 })

  const shown = JSON.parse((await good('logs', 'show', second, '--json')).stdout)
  expect(shown).toEqual(entry)
  const ofRequest = JSON.parse((await good('logs', 'show', shown.metadata.requestId, '--json')).stdout)
  expect(ofRequest).toEqual([shown])
  const listed = await good('logs', 'list', '--status', '2xx', '-m', 'local/extract', '-o', 'id')
  expect(listed.stdout).toBe(`${second}\n${first}\n`)
})
