import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { ALWAYS } from '../../src/shared/evidence/cosignature.ts'
import { parseKeySet } from '../../src/shared/evidence/keys.ts'
import { runCli } from '../cli/run-cli.ts'
import { type Gateway, sharedGateway } from '../harness.ts'
import { startWitness, type TestWitness } from '../witness.ts'

const VERIFIERS = fileURLToPath(new URL('../../docs/verifiers/', import.meta.url))
const python = join(VERIFIERS, 'verify_receipt.py')
const pythonExport = join(VERIFIERS, 'verify_export.py')

let gateway: Gateway
let witnesses: TestWitness[]
let folder: string
let keys: string
let bundleFile: string
let exported: string

/** Writes a policy that demands `count` of the two witnesses. */
async function policy(count: number, ...more: string[]): Promise<string> {
  const lines = witnesses.map(({ vkey }, at) => `witness w${at} ${vkey}`)
  const path = join(folder, `policy-${Math.random()}`)
  await writeFile(path, [...lines, ...more, `group g ${count} w0 w1`, 'quorum g', ''].join('\n'))
  return path
}
const aigw = (...words: string[]) =>
  runCli(words, { env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: gateway.adminKey, NO_COLOR: '1', HOME: folder } })
const run = (program: string, ...args: string[]) =>
  new Promise<{ code: number; says: string }>((resolve) =>
    execFile(program, args, (error, out, err) => resolve({ code: error ? Number(error.code) : 0, says: out + err })),
  )

/** The verdicts of the three verifiers of an export: whether each accepts it. */
async function verdictsOn(policyFile: string): Promise<boolean[]> {
  const options = [exported, '--keys', keys, '--policy', policyFile]
  const [own, mjs, py] = await Promise.all([
    aigw('audit', 'verify', ...options),
    run('node', join(VERIFIERS, 'verify.mjs'), ...options),
    run('python3', '-B', pythonExport, ...options),
  ])
  return [own.exitCode === 0, mjs.code === 0, py.code === 0]
}
async function verdictsOnBundle(path: string, policyFile: string): Promise<boolean[]> {
  const own = await aigw('receipts', 'verify', path, '--keys', keys, '--policy', policyFile)
  const py = await run('python3', '-B', python, 'bundle', path, keys, policyFile)
  expect([0, 10]).toContain(own.exitCode)
  expect([py.code === 0 || py.code === 1, py.says]).toEqual([true, expect.any(String)])
  return [own.exitCode === 0, py.code === 0]
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aigw-witnesses-'))
  witnesses = [await startWitness('witness.example.com/w1'), await startWitness('witness.example.com/w2')]
})
const shared = sharedGateway(() => ({
  evidence: {
    witnesses: witnesses.map(({ url, vkey }, at) => ({
      ...{ name: `w${at}`, url },
      key: vkey,
      window: ALWAYS,
    })),
  },
}))
beforeAll(async () => {
  gateway = shared.current
  const keySet = await gateway.call('GET', '/.well-known/aigw-keys.json', undefined, { key: null })
  for (const witness of witnesses) witness.trusts = async () => parseKeySet(keySet.body)
  keys = join(folder, 'keys.json')
  await writeFile(keys, keySet.text)
  const { body } = await gateway.chat({ messages: [{ role: 'user', content: 'Hello' }] })
  expect((await aigw('audit', 'checkpoint')).exitCode).toBe(0)
  const count = async () => (await gateway.app.db.selectFrom('evidence_cosignatures').selectAll().execute()).length
  await vi.waitFor(async () => expect(await count()).toBe(4), { timeout: 20_000 })
  bundleFile = join(folder, 'bundle.json')
  const bundle = await aigw('receipts', 'bundle', body.metadata.smltp.bundle_id)
  expect(bundle.exitCode, bundle.stderr).toBe(0)
  await writeFile(bundleFile, bundle.stdout)
  exported = join(folder, 'export')
  const made = await aigw('audit', 'export', exported)
  expect(made.exitCode, made.stderr).toBe(0)
})
afterAll(async () => {
  await Promise.all(witnesses.map((witness) => witness.close()))
  await rm(folder, { recursive: true })
})

test('every verifier accepts a bundle that n of these witnesses have cosigned, and refuses one with fewer', async () => {
  expect(await verdictsOnBundle(bundleFile, await policy(2))).toEqual([true, true])
  const { stdout } = await aigw('receipts', 'verify', bundleFile, '--keys', keys, '--policy', await policy(2))
  expect(stdout).toMatch(/covered by a checkpoint of \d+ entries, cosigned by w0, w1$/m)
  const bundle = JSON.parse(await readFile(bundleFile, 'utf8'))
  const changed = join(folder, 'changed.json')
  const change = async (from: RegExp, to: string) => {
    await writeFile(changed, JSON.stringify({ ...bundle, tlog_proof: bundle.tlog_proof.replace(from, to) }))
    return changed
  }
  // Without the second cosignature.
  const cut = await change(/— witness\.example\.com\/w2 .*\n/, '')
  expect(await verdictsOnBundle(cut, await policy(1))).toEqual([true, true])
  expect(await verdictsOnBundle(cut, await policy(2))).toEqual([false, false])
  for (const [from, to] of [
    [/index \d+/, 'index 99'],
    [/\/logs\/./, '/logs/g'],
    [/(— witness\.example\.com\/w1 .{20})./, '$1A'],
    [/^c2sp/, 'c3sp'],
    [/\n$/, ''],
  ] as const)
    expect([from, await verdictsOnBundle(await change(from, to), await policy(2))]).toEqual([from, [false, false]])
})

test('every verifier accepts an export whose checkpoints n of these witnesses have cosigned', async () => {
  expect(await verdictsOn(await policy(2))).toEqual([true, true, true])
  const other = await startWitness('witness.example.com/w3')
  const strict = join(folder, 'strict')
  await writeFile(strict, `witness w3 ${other.vkey}\nquorum w3\n`)
  expect(await verdictsOn(strict)).toEqual([false, false, false])
  expect(await verdictsOnBundle(bundleFile, strict)).toEqual([false, false])
  await other.close()
})

test('every verifier ignores a cosignature outside of the validity of its key', async () => {
  for (const [line, holds] of [
    ['valid w0 2020-01-01T00:00:00Z -', true],
    ['valid w0 - 2020-01-01T00:00:00Z', false],
    ['valid w0 2999-01-01T00:00:00Z -', false],
  ] as const) {
    expect([line, await verdictsOn(await policy(2, line))]).toEqual([line, [holds, holds, holds]])
    expect([line, await verdictsOnBundle(bundleFile, await policy(2, line))]).toEqual([line, [holds, holds]])
  }
})

test('no verifier accepts a policy that is not one', async () => {
  const bad = join(folder, 'bad')
  for (const text of [
    '',
    'quorum w1\n',
    'log x\nquorum none\n',
    `witness w1 ${witnesses[0]?.vkey}\n`,
    'quorum none none\n',
  ]) {
    await writeFile(bad, text)
    const options = [exported, '--keys', keys, '--policy', bad]
    const codes = await Promise.all([
      aigw('audit', 'verify', ...options).then(({ exitCode }) => exitCode),
      aigw('receipts', 'verify', bundleFile, '--keys', keys, '--policy', bad).then(({ exitCode }) => exitCode),
      run('node', join(VERIFIERS, 'verify.mjs'), ...options).then(({ code }) => code),
      run('python3', '-B', pythonExport, ...options).then(({ code }) => code),
      run('python3', '-B', python, 'bundle', bundleFile, keys, bad).then(({ code }) => code),
    ])
    expect([text, codes]).toEqual([text, [2, 2, 2, 2, 2]])
  }
})
