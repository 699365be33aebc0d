import { execFile } from 'node:child_process'
import { hash } from 'node:crypto'
import { cp, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { toKeySet } from '../../../src/shared/evidence/keys.ts'
import { testNote, testSigner } from '../../shared/evidence/signer.ts'
import { checkpointOf, type StoredChain, storedChain } from '../../shared/evidence/stored-chain.ts'
import { CHAIN, noteOf, SIGNER, SMALL_CHAIN, serveEvidence, TENANT } from '../evidence-routes.ts'
import { type FakeGateway, json, KEY, startFakeGateway, structuredError } from '../fake-gateway.ts'
import { type CliOptions, runCli } from '../run-cli.ts'

let gateway: FakeGateway
let folder: string
let keyFile: string
beforeEach(async () => {
  gateway = await startFakeGateway()
  serveEvidence(gateway)
  folder = await mkdtemp(join(tmpdir(), 'aigw-audit-'))
  keyFile = await save('keys.json', JSON.stringify(toKeySet([SIGNER.published])))
})
afterEach(async () => {
  await gateway.close()
  await rm(folder, { recursive: true })
})

async function save(name: string, content: string | Buffer): Promise<string> {
  const path = join(folder, name)
  await writeFile(path, content)
  return path
}
const audit = (words: string[], options: CliOptions = {}) =>
  runCli(['audit', ...words], { ...options, env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: KEY, NO_COLOR: '1' } })

/** The chain with one entry changed. */
const changed = ({ rows, commits }: StoredChain, seq: number, change: object): StoredChain => ({
  rows: rows.map((row) => (row.seq === seq ? { ...row, ...change } : row)),
  commits,
})
const without = ({ rows, commits }: StoredChain, seq: number): StoredChain => ({
  rows: rows.filter((row) => row.seq !== seq),
  commits,
})

describe('audit verify', () => {
  test('verifies a chain of several pages, and prints its result and the source of the keys', async () => {
    serveEvidence(gateway, storedChain(2_345, 9, SIGNER))
    const { exitCode, stdout, stderr } = await audit(['verify', '--json'])
    expect(JSON.parse(stdout)).toMatchObject([
      { chain: CHAIN, ok: true, entries: 2_345, expunged: 0, checkpoints: 2, first_bad: null, problem: null },
    ])
    expect(exitCode).toBe(0)
    expect(stderr).toContain('independent of the gateway')
    expect(stderr).toContain('note: without --checkpoint')
  })

  const bad = (chain: StoredChain, seq: number, problem: string): [StoredChain, number, string] => [chain, seq, problem]
  test.each([
    bad(changed(SMALL_CHAIN, 3, { payload: '{}' }), 3, 'its payload was changed'),
    bad(changed(SMALL_CHAIN, 0, { created_at: '2020-01-01T00:00:00.000Z' }), 0, 'its entry_hash is wrong'),
    bad(changed(SMALL_CHAIN, 5, { leaf_index: 0 }), 5, 'does not contain it'),
    bad(changed(SMALL_CHAIN, 5, { commit_id: 'commit-9' }), 5, 'its commit commit-9 is missing'),
    bad(without(SMALL_CHAIN, 2), 2, 'it is missing: entry 3 follows instead'),
    bad(without(SMALL_CHAIN, 6), 6, 'the chain has 6 entries, but a checkpoint covers 7'),
    bad(storedChain(7, 3, testSigner('aigw-test')), 0, 'is signed with a key that is not trusted'),
  ])('exits 10 and names the first invalid entry (%#)', async (chain, seq, problem) => {
    serveEvidence(gateway, chain, 7)
    const { exitCode, stdout, stderr } = await audit(['verify', '--json', '--keys', keyFile])
    expect(exitCode).toBe(10)
    expect(JSON.parse(stdout)).toMatchObject([{ chain: CHAIN, ok: false, first_bad: seq }])
    expect(stderr).toContain(problem)
    expect(JSON.parse(stderr.trim().split('\n').at(-1) ?? '')).toMatchObject({ code: 'CHAIN_VIOLATED', exit_code: 10 })
  })

  test('finds a log that was cut at its end only with a checkpoint that was kept elsewhere', async () => {
    const kept = await save('kept.note', `${noteOf(SMALL_CHAIN, 2)}\n${noteOf(SMALL_CHAIN, 7)}`)
    expect((await audit(['verify', '--checkpoint', kept])).exitCode).toBe(0)
    serveEvidence(gateway, without(SMALL_CHAIN, 6), 6)
    expect((await audit(['verify'])).exitCode).toBe(0)
    const { exitCode, stderr } = await audit(['verify', '--checkpoint', kept])
    expect(exitCode).toBe(10)
    expect(stderr).toContain(
      `chain ${CHAIN} is invalid from entry 6 on: the chain has 6 entries, but a checkpoint covers 7`,
    )
  })

  /** What the gateway keeps of a chain beside it: the checkpoints. */
  const latest = (size: number) => {
    const root = Buffer.from(checkpointOf(SMALL_CHAIN.rows.slice(0, size)).root, 'base64').toString('hex')
    const kid = SIGNER.published.kid
    return { chain: CHAIN, tree_size: size, root, kid, note: noteOf(SMALL_CHAIN, size), created_at: '' }
  }
  const CHECKPOINTS = 'GET /api/external/transparency/checkpoints'

  test("detects a truncated log by the gateway's checkpoints", async () => {
    serveEvidence(gateway, without(SMALL_CHAIN, 6), 6)
    gateway.on(CHECKPOINTS, json(200, { checkpoints: [latest(4), latest(7)] }))
    for (const words of [['verify'], ['export', join(folder, 'evidence')]]) {
      const { exitCode, stderr } = await audit(words)
      expect(exitCode).toBe(10)
      expect(stderr).toContain('is invalid from entry 6 on: the chain has 6 entries, but a checkpoint covers 7')
    }
  })

  test('detects a removed chain by its remaining checkpoints', async () => {
    gateway.on('GET /api/external/transparency/chains', json(200, { tenant_id: TENANT, chains: [] }))
    const { exitCode, stdout, stderr } = await audit(['verify', '--json'])
    expect(exitCode).toBe(10)
    expect(JSON.parse(stdout)).toMatchObject([{ chain: CHAIN, ok: false, entries: 0, first_bad: 0 }])
    expect(stderr).toContain('the chain has 0 entries, but a checkpoint covers 3')
  })

  test('passes over a checkpoint that was made while it read', async () => {
    serveEvidence(gateway, without(SMALL_CHAIN, 6), 6)
    const [before, after] = [
      json(200, { checkpoints: [latest(4)] }),
      json(200, { checkpoints: [latest(4), latest(7)] }),
    ]
    gateway.on(CHECKPOINTS, before, after)
    expect((await audit(['verify'])).exitCode).toBe(0)
  })

  test('requests the keys again before it rejects a signature of a new key', async () => {
    const KEYS = 'GET /.well-known/aigw-keys.json'
    const stale = json(200, toKeySet([testSigner('aigw-test').published]))
    const fresh = json(200, toKeySet([testSigner('aigw-test').published, SIGNER.published]))
    for (const words of [['verify'], ['verify', '--checkpoint', await save('kept', noteOf(SMALL_CHAIN, 7))]]) {
      gateway.on(KEYS, stale, fresh)
      const { exitCode, stderr } = await audit(words)
      expect(exitCode, stderr).toBe(0)
      expect(gateway.requests.filter(({ path }) => path.endsWith('keys.json')).at(-1)?.headers).toMatchObject({
        'cache-control': 'no-cache',
      })
    }
    gateway.on(KEYS, stale)
    expect(await audit(['verify'])).toMatchObject({
      exitCode: 10,
      stderr: expect.stringContaining('no trusted key'),
    })
  })

  test('detects a log that was rewritten with the right key, by an old checkpoint', async () => {
    const kept = await save('kept.note', noteOf(SMALL_CHAIN, 5))
    serveEvidence(gateway, storedChain(7, 2, SIGNER))
    expect((await audit(['verify'])).exitCode).toBe(0)
    const other = storedChain(5, 3, SIGNER)
    const note = testNote(checkpointOf(other.rows).origin, 4, checkpointOf(other.rows.slice(1)).root, SIGNER)
    expect((await audit(['verify', '--checkpoint', await save('other.note', note)])).exitCode).toBe(10)
    expect((await audit(['verify', '--checkpoint', kept])).exitCode).toBe(0)
  })

  test('skips a truncated checkpoint with a warning, and rejects a wrong one', async () => {
    const note = noteOf(SMALL_CHAIN, 7)
    const forged = noteOf(SMALL_CHAIN, 5, testSigner('aigw-test'))
    for (const half of [note.slice(0, 20), note.slice(0, note.indexOf('—')), note.slice(0, -9)]) {
      const kept = await save('halves.note', `${half}\n\n${note}\n`)
      const { exitCode, stderr } = await audit(['verify', '--checkpoint', kept])
      expect(exitCode).toBe(0)
      expect(stderr).toContain(`warning: ${kept} has a truncated checkpoint, which is skipped: "aigw-test/logs/`)
      for (const text of [half, `${half}\n\n${forged}`]) {
        expect((await audit(['verify', '--checkpoint', await save('wrong.note', text)])).exitCode).toBe(10)
      }
    }
    const bytes = Buffer.from(`${note}\n`)
    const character = bytes.indexOf('—') + 1
    const kept = await save('character.note', Buffer.concat([bytes.subarray(0, character), Buffer.from('\n\n'), bytes]))
    expect((await audit(['verify', '--checkpoint', kept])).exitCode).toBe(0)
  })

  test('rejects a checkpoint without a trusted signature, or of an unknown log', async () => {
    const forged = await save('forged.note', noteOf(SMALL_CHAIN, 5, testSigner('aigw-test')))
    expect(await audit(['verify', '--checkpoint', forged])).toMatchObject({
      exitCode: 10,
      stderr: expect.stringContaining('no trusted key has signed it'),
    })
    const origin = `aigw-test/logs/${'0'.repeat(32)}`
    const others = await save('others.note', testNote(origin, 3, checkpointOf(SMALL_CHAIN.rows).root, SIGNER))
    expect(await audit(['verify', '--checkpoint', others])).toMatchObject({
      exitCode: 10,
      stderr: expect.stringContaining(`the log ${origin}`),
    })
    expect((await audit(['verify', '--checkpoint', others, '--other-logs'])).exitCode).toBe(0)
    expect((await audit(['verify', '--checkpoint', keyFile])).exitCode).toBe(10)
  })

  test('sends no request that needs more rights than the caller has', async () => {
    const refused = structuredError(403, 'INSUFFICIENT_PERMISSIONS', 'This needs smltp-security.')
    gateway.on('GET /api/external/transparency/chains', refused)
    expect(await audit(['verify'])).toMatchObject({ exitCode: 5, stdout: '' })
  })
})

describe('audit checkpoint', () => {
  test('prints a signed note, or adds it to a file, which audit verify takes', async () => {
    const note = noteOf(SMALL_CHAIN, 7)
    expect((await audit(['checkpoint'])).stdout).toBe(`${note}\n`)
    const out = join(folder, 'kept.notes')
    for (let times = 0; times < 2; times++) {
      expect(await audit(['checkpoint', '--out', out, '-o', 'id'])).toMatchObject({ exitCode: 0, stdout: `${CHAIN}\n` })
    }
    expect(await readFile(out, 'utf8')).toBe(`${note}\n${note}\n`)
    expect((await audit(['verify', '--checkpoint', out])).exitCode).toBe(0)
  })

  test('that cannot be written exits 1', async () => {
    expect((await audit(['checkpoint', '--out', join(folder, 'none', 'kept.notes')])).exitCode).toBe(1)
  })
})

describe('audit export', () => {
  let target: string
  beforeEach(() => {
    target = join(folder, 'evidence')
  })
  const exported = async (chain = SMALL_CHAIN) => {
    serveEvidence(gateway, chain)
    const result = await audit(['export', target, '--json'])
    expect(result.exitCode, result.stderr).toBe(0)
    gateway.requests.length = 0
    return JSON.parse(result.stdout)
  }
  const verifier = (...args: string[]) =>
    promisify(execFile)(process.execPath, [join(target, 'verify.mjs'), ...args]).then(
      ({ stdout }) => ({ exitCode: 0, stdout }),
      ({ code, stdout, stderr }) => ({ exitCode: code, stdout: `${stdout}${stderr}` }),
    )

  test('writes a directory that both verifiers accept without a gateway, also with the keys of a file', async () => {
    expect(await exported(storedChain(1_234, 9, SIGNER))).toMatchObject({
      directory: target,
      entries: 1_234,
      chains: 1,
    })
    expect((await readdir(target)).sort()).toEqual([
      'README.txt',
      'checkpoints.ndjson',
      'commits.ndjson',
      'data.csv',
      'data.ndjson',
      'keys.json',
      'manifest.json',
      'manifest.sig',
      'statement.json',
      'verify.mjs',
    ])
    expect((await stat(join(target, 'data.ndjson'))).mode & 0o777).toBe(0o600)
    const result = await audit(['verify', target, '--json'])
    expect(JSON.parse(result.stdout)).toMatchObject([{ chain: CHAIN, ok: true, entries: 1_234, checkpoints: 2 }])
    expect(result.stderr).toContain('independent of the export')
    expect((await audit(['verify', target, '--keys', keyFile])).exitCode).toBe(0)
    expect(gateway.requests).toEqual([])
    expect(result.exitCode).toBe(11)
    expect(await verifier('--keys', keyFile)).toMatchObject({ exitCode: 0 })
    expect(await verifier()).toMatchObject({ exitCode: 11 })
  })

  const expunged = { ...SMALL_CHAIN, rows: SMALL_CHAIN.rows.map((row) => ({ ...row, payload: null })) }

  test('of a log with expunged contents is valid too', async () => {
    serveEvidence(gateway, expunged)
    const { exitCode, stderr } = await audit(['export', target])
    expect(exitCode, stderr).toBe(0)
    expect(JSON.parse((await audit(['verify', target, '--json'])).stdout)).toMatchObject([{ ok: true, expunged: 7 }])
    expect(await verifier('--keys', keyFile)).toMatchObject({ exitCode: 0 })
  })

  test('is not written if payloads were expunged while it was read', async () => {
    const entries = 'GET /api/external/transparency/chains/requests-0123456789ab/entries'
    gateway.on(entries, json(200, { entries: expunged.rows }))
    const { exitCode, stderr } = await audit(['export', target])
    expect(exitCode).toBe(10)
    expect(stderr).toContain('7 entries of chain requests-0123456789ab have no payload, but 0 had none')
    expect(stderr).toContain('export again')
  })

  test.each([
    ['data.ndjson', (text: string) => text.replace('jti-3', 'jti-9')],
    ['data.csv', (text: string) => text.replace('jti-3', 'jti-9')],
    ['commits.ndjson', (text: string) => text.split('\n').slice(1).join('\n')],
    ['checkpoints.ndjson', () => ''],
    ['keys.json', (text: string) => `${text} `],
    ['verify.mjs', (text: string) => text.replace('process.exitCode', 'process.exitcode')],
    ['manifest.json', (text: string) => text.replace('"rowCount": 7', '"rowCount": 6')],
    ['statement.json', (text: string) => text.replace('"expunged":0', '"expunged":1')],
    ['manifest.sig', (text: string) => text.replace(/"signature": "../, '"signature": "AA')],
  ])('with another %s than was signed exits 10', async (name, change) => {
    await exported()
    const path = join(target, name)
    const text = await readFile(path, 'utf8')
    expect(change(text)).not.toBe(text)
    await writeFile(path, change(text))
    expect(await audit(['verify', target])).toMatchObject({ exitCode: 10, stdout: '' })
    if (name !== 'verify.mjs') expect(await verifier()).toMatchObject({ exitCode: 1 })
  })

  test('without one of its files exits 10, and a directory without a manifest is none', async () => {
    await exported()
    await rm(join(target, 'data.csv'))
    expect(await audit(['verify', target])).toMatchObject({ exitCode: 10, stderr: expect.stringContaining('data.csv') })
    expect(await audit(['verify', folder])).toMatchObject({ exitCode: 2, stdout: '' })
  })

  test('that another key has signed exits 10 when the right keys are given', async () => {
    await exported()
    const others = await save('others.json', JSON.stringify(toKeySet([testSigner('aigw-test').published])))
    expect(await audit(['verify', target, '--keys', others])).toMatchObject({ exitCode: 10 })
    expect(await verifier('--keys', others)).toMatchObject({ exitCode: 1 })
  })

  test('shows with a checkpoint that was kept elsewhere that it is of an earlier state', async () => {
    const kept = await save('kept.note', noteOf(SMALL_CHAIN, 7))
    await exported({ ...SMALL_CHAIN, rows: SMALL_CHAIN.rows.slice(0, 6) })
    expect((await audit(['verify', target, '--keys', keyFile])).exitCode).toBe(0)
    expect((await audit(['verify', target, '--keys', keyFile, '--checkpoint', kept])).exitCode).toBe(10)
  })

  test('replaces an earlier export after a confirmation, an empty directory without, and no other directory', async () => {
    await exported()
    expect(await audit(['export', target])).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('--yes') })
    serveEvidence(gateway, storedChain(12, 3, SIGNER))
    expect((await audit(['export', target, '--yes'])).exitCode).toBe(0)
    expect(JSON.parse((await audit(['verify', target, '--json'])).stdout)).toMatchObject([{ entries: 12 }])
    await writeFile(join(target, 'notes.txt'), 'mine')
    expect(await audit(['export', target, '--yes'])).toMatchObject({ exitCode: 2 })
    expect(await readFile(join(target, 'notes.txt'), 'utf8')).toBe('mine')
    expect(await audit(['export', keyFile, '--yes'])).toMatchObject({ exitCode: 2 })
  })

  test('of a violated log exits 10, writes no file and keeps an earlier export', async () => {
    await exported()
    await cp(target, join(folder, 'before'), { recursive: true })
    serveEvidence(gateway, changed(SMALL_CHAIN, 4, { payload: '{"bundle_id":"jti-4"}' }))
    expect(await audit(['export', target, '--yes'])).toMatchObject({ exitCode: 10, stdout: '' })
    expect((await readdir(folder)).sort()).toEqual(['before', 'evidence', 'keys.json'])
    expect(await readFile(join(target, 'manifest.sig'))).toEqual(await readFile(join(folder, 'before/manifest.sig')))
  })

  test.each([
    [
      'an entry that was changed',
      changed(SMALL_CHAIN, 4, { payload: '{"bundle_id":"jti-4"}' }),
      'from entry 4 on: its payload was changed',
    ],
    ['an entry that is missing', without(SMALL_CHAIN, 3), 'from entry 3 on: it is missing'],
  ])('with --even-violated keeps %s as it is, unsigned, and still exits 10', async (_what, chain, problem) => {
    serveEvidence(gateway, chain)
    const { exitCode, stdout, stderr } = await audit(['export', target, '--even-violated'])
    expect([exitCode, stdout]).toEqual([10, ''])
    expect(stderr).toContain(problem)
    expect(stderr).toContain('violations.json lists its violations')
    expect((await readdir(target)).sort()).toEqual([
      'README.txt',
      'checkpoints.ndjson',
      'commits.ndjson',
      'data.csv',
      'data.ndjson',
      'keys.json',
      'violations.json',
    ])
    const text = await readFile(join(target, 'data.ndjson'), 'utf8')
    expect(
      text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line)),
    ).toEqual(chain.rows)
    const found = JSON.parse(await readFile(join(target, 'violations.json'), 'utf8'))
    expect(found).toMatchObject({ tenant_id: TENANT, chains: [{ chain: CHAIN, ok: false }] })
    expect(found.problems).toEqual([expect.stringContaining(problem)])
    expect(found.files).toContainEqual({
      name: 'data.ndjson',
      sha256: hash('sha256', text, 'hex'),
      bytes: Buffer.byteLength(text),
    })
    // Nothing takes it for an export, and a good one takes its place.
    expect((await audit(['verify', target, '--keys', keyFile])).exitCode).not.toBe(0)
    serveEvidence(gateway)
    expect((await audit(['export', target, '--yes', '--even-violated'])).exitCode).toBe(0)
    expect((await audit(['verify', target, '--keys', keyFile])).exitCode).toBe(0)
  })

  test('with --even-violated keeps a checkpoint that is not of its chain too', async () => {
    const checkpoint = { chain: CHAIN, tree_size: 6, note: noteOf(SMALL_CHAIN, 7) }
    gateway.on('GET /api/external/transparency/checkpoints', json(200, { checkpoints: [checkpoint] }))
    const { exitCode, stderr } = await audit(['export', target, '--even-violated'])
    expect([exitCode, stderr]).toEqual([10, expect.stringContaining('it belongs to another chain')])
    expect(await readFile(join(target, 'checkpoints.ndjson'), 'utf8')).toContain('"tree_size":6')
  })

  test('never turns text of callers into a formula', async () => {
    await exported()
    const csv = await readFile(join(target, 'data.csv'), 'utf8')
    expect(csv).toMatch(/^Entry ID,Timestamp,Event,Actor,Status,Details\r\n/)
    expect(csv.split('\r\n')[1]).toMatch(
      /^jti-0,2026-01-01T00:00:00\.000Z,api_access,'=user-0,SUCCESS,"\{""bundle_id""/,
    )
  })
})

test('audit rotate-key asks first, and prints the new key', async () => {
  expect(await audit(['rotate-key'])).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('--yes') })
  expect(await audit(['rotate-key', '--yes', '-o', 'id'])).toMatchObject({ exitCode: 0, stdout: 'new\n' })
})
