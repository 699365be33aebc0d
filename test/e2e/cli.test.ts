import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { newApiKey } from '../../src/shared/ids.ts'
import { type InstalledCli, installCli } from '../cli/installed-cli.ts'
import { runDaemon } from './daemon-process.ts'

const project = fileURLToPath(new URL('../..', import.meta.url))
const QUESTION = 'How many days of annual leave do I have?'

let cli: InstalledCli
beforeAll(async () => {
  cli = await installCli()
})
afterAll(() => cli.remove())

describe('the command line against a running gateway', () => {
  let env: Record<string, string>
  let home: string
  beforeEach(async () => {
    home = await mkdtemp(join(cli.folder, 'home-'))
    const key = newApiKey()
    const args = ['--listen', '127.0.0.1:0', '--data-dir', join(home, 'data')]
    const daemon = runDaemon(args, { home, env: { AIGW_BOOTSTRAP_KEY: key } })
    env = { AIGW_BASE_URL: await daemon.url(), AIGW_API_KEY: key, HOME: home }
    return async () => {
      await daemon.end('SIGTERM')
      await rm(home, { recursive: true })
    }
  })

  const aigw = async (...words: string[]) => cli.run(words, { env })

  async function writeDocuments(documents: Record<string, string | Buffer>): Promise<string> {
    const folder = join(home, 'docs')
    await mkdir(folder)
    for (const [name, content] of Object.entries(documents)) await writeFile(join(folder, name), content)
    return folder
  }

  test('creates, fills, searches and asks a knowledge base', async () => {
    const folder = await writeDocuments({
      'leave.md': '# Leave\n\nEvery employee has 28 days of annual leave.\n',
      'other.text': 'The canteen opens at noon.\n',
    })
    expect(await aigw('health', '--ready', '--field', 'status')).toMatchObject({ exitCode: 0, stdout: 'ready\n' })
    const created = await aigw('indexes', 'create', 'My Handbook!', '--field', 'name')
    expect(created).toMatchObject({ exitCode: 0, stdout: 'my-handbook\n' })
    for (let run = 0; run < 2; run++) {
      const again = await aigw('indexes', 'create', 'My Handbook!', '--if-not-exists', '--field', 'name')
      expect(again).toMatchObject({ exitCode: 0, stdout: 'my-handbook\n' })
    }

    const added = await aigw('indexes', 'add', 'My Handbook!', folder, '--field', 'status')
    expect(added).toMatchObject({ exitCode: 0, stdout: 'indexed\nindexed\n' })
    const unchanged = await aigw('indexes', 'add', 'my-handbook', folder, '--field', 'status')
    expect(unchanged).toMatchObject({ exitCode: 0, stdout: 'unchanged\nunchanged\n' })

    const found = await aigw('indexes', 'search', 'My Handbook!', 'annual', 'leave', '-k', '1', '--field', 'source')
    expect(found).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/docs\/leave\.md\n$/) })

    const ask = ['chat', '-m', 'local/extract', '-i', 'My Handbook!']
    const streamed = await aigw(...ask, '--sources', QUESTION)
    expect(streamed).toMatchObject({ exitCode: 0, stderr: '' })
    expect(streamed.stdout).toContain('28 days')
    expect(streamed.stdout).toMatch(/\n\nSources:\n\[1\] .*docs\/leave\.md, Leave\n$/)
    const whole = await aigw(...ask, '-o', 'json', QUESTION)
    expect(whole).toMatchObject({ exitCode: 0, stderr: '' })
    const { choices, metadata } = JSON.parse(whole.stdout)
    expect(`${choices[0].message.content}\n`).toBe(streamed.stdout)
    expect(metadata).toMatchObject({ index_used: 'my-handbook', served_model: 'local/extract' })
  })

  test('sends the files after an unreadable batch, and reports it with exit code 1', async () => {
    const latin1 = Buffer.from('caf\xe9', 'latin1')
    const bad = Array.from({ length: 20 }, (_, at) => [`${String(at).padStart(2, '0')}.md`, latin1] as const)
    const folder = await writeDocuments({ ...Object.fromEntries(bad), 'z.md': 'The last one is good.' })
    await aigw('indexes', 'create', 'handbook')
    const { exitCode, stdout, stderr } = await aigw('indexes', 'add', 'handbook', folder, '--field', 'status')
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: `${'failed\n'.repeat(20)}indexed\n` })
    expect(stderr).toContain('error: 20 of 21 documents could not be added')
    const found = await aigw('indexes', 'search', 'handbook', 'last', '--field', 'source')
    expect(found.stdout).toMatch(/docs\/z\.md\n$/)
    expect(await aigw('indexes', 'add', 'handbook', join(folder, '00.md'))).toMatchObject({ exitCode: 1 })
  })

  test('prints an error for a missing index', async () => {
    const asked = await aigw('chat', '-m', 'local/extract', '-i', 'handbok', 'hi')
    expect(asked).toMatchObject({ exitCode: 5, stdout: '', stderr: expect.stringContaining('aigw indexes list') })
    const searched = await aigw('indexes', 'search', 'handbok', 'hi')
    expect(searched).toMatchObject({ exitCode: 3, stdout: '', stderr: expect.stringContaining('aigw indexes list') })
  })
})

test.each(['SIGKILL', 'SIGHUP', 'SIGTERM'] as const)(
  'a gateway started by serve stops when serve gets %s, and releases its store',
  async (name) => {
    const home = await mkdtemp(join(cli.folder, 'home-'))
    const args = ['--listen', '127.0.0.1:0', '--data-dir', join(home, 'data')]
    const { child, ended } = cli.start(['serve', ...args], { env: { HOME: home } })
    if (child.stdout === null) throw new Error('no stdout')
    for await (const line of createInterface({ input: child.stdout })) if (line.includes('"listening"')) break
    child.stdout.resume()
    child.kill(name)
    // The CLI and its daemon share this stdout, so it ends only after the daemon has exited too.
    expect(await ended).toMatchObject(name === 'SIGKILL' ? { signal: name } : { exitCode: 0, signal: null })
    const next = runDaemon(args, { home })
    await next.url()
    expect(await next.end('SIGTERM')).toMatchObject({ code: 0 })
    await rm(home, { recursive: true })
  },
)

test('the quick start answers a question, shows its bill and removes its files', async () => {
  for (const name of ['scripts', 'docs', 'README.md', 'ARCHITECTURE.md']) {
    await cp(join(project, name), join(cli.folder, name), { recursive: true })
  }
  const scratch = await mkdtemp(join(cli.folder, 'tmp-'))
  const child = spawn(process.execPath, [join(cli.folder, 'scripts/quickstart.mjs')], {
    env: { PATH: process.env.PATH ?? '', HOME: scratch, TMPDIR: scratch },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const text = { stdout: '', stderr: '' }
  child.stdout.setEncoding('utf8').on('data', (chunk) => {
    text.stdout += chunk
  })
  child.stderr.setEncoding('utf8').on('data', (chunk) => {
    text.stderr += chunk
  })
  const [code] = await once(child, 'close')
  expect(code, `${text.stdout}${text.stderr}`).toBe(0)
  expect(text.stdout).toMatch(/^docs\/cli\.md\tindexed\t\d+/m)
  // The answer is printed between the command and the bill.
  const [, answer = ''] = /\$ aigw chat .*\n([\s\S]+?)\n\nThe bill in the receipt/.exec(text.stdout) ?? []
  expect(answer).toContain('aigw db backup /backup --data-dir /var/lib/aigw')
  expect(answer).toMatch(/Sources:\n(?:\[.*\n)*(?:\[\d\])+ docs\/how-to\/back-up-and-restore\.md, Back up/)
  expect(text.stdout).not.toContain('openapi.json')
  // The answer of the built-in model lists its sources; a second list would repeat them.
  expect(text.stderr).not.toContain('Sources:')
  expect(text.stderr).toMatch(/^local\/extract {2}\d+ in \/ \d+ out/m)
  expect(text.stdout).toMatch(/^ {2}model +local\/extract$/m)
  expect(text.stdout).toMatch(/^ {2}ending +complete$/m)
  expect(await readdir(scratch)).toEqual([])
})
