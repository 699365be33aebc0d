import { execFile } from 'node:child_process'
import { appendFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { GENESIS_HASH } from '../../../src/shared/evidence/entry.ts'
import type { ExportStatement } from '../../../src/shared/evidence/export-statement.ts'
import { toKeySet } from '../../../src/shared/evidence/keys.ts'
import { type ExportParts, exportParts, VERIFIERS, writeExport } from './export-folder.ts'
import { testCommit, testNote, testSigner } from './signer.ts'
import { checkpointOf, nextRow, storedChain } from './stored-chain.ts'

const signer = testSigner('aigw-test')
const other = testSigner('aigw-test')
const changes = storedChain(12, 3, signer, 'changes')
const requests = storedChain(40, 7, signer)
const expunged = { ...requests, rows: requests.rows.map((row) => (row.seq === 3 ? { ...row, payload: null } : row)) }
const parts = exportParts([changes, expunged], signer)
const { rows } = parts

let folder: string
/** The keys of `signer`, from outside the export. */
let trusted: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aigw-export-'))
  trusted = join(folder, 'trusted.json')
  await writeFile(trusted, JSON.stringify(toKeySet([signer.published])))
  await writeExport(join(folder, 'good'), parts, signer)
})
afterAll(() => rm(folder, { recursive: true }))

let made = 0
async function exportWith(changed: Partial<ExportParts>, by = signer): Promise<string> {
  const dir = join(folder, String(++made))
  await writeExport(dir, { ...parts, ...changed }, by)
  return dir
}

const run = (args: string[], script = join(VERIFIERS, 'verify.mjs')) =>
  new Promise<{ code: number; out: string; err: string }>((resolve) => {
    execFile(process.execPath, [script, ...args], (error, out, err) =>
      resolve({ code: Number(error?.code ?? 0), out, err }),
    )
  })

const expectBroken = async (dir: string, says: string, args: string[] = []): Promise<void> => {
  const { code, out } = await run([dir, ...args])
  expect(out).toContain(says)
  expect(out).toContain('FAIL')
  expect(out).toMatch(/The export is NOT valid\.\n$/)
  expect(code).toBe(1)
}

test('the verifier is what its sources make of it: npm run verifier', async () => {
  const made = join(folder, 'verify.mjs')
  await promisify(execFile)(process.execPath, [join(VERIFIERS, '../../scripts/verifier.mjs'), made])
  const code = await readFile(made, 'utf8')
  expect(await readFile(join(VERIFIERS, 'verify.mjs'), 'utf8')).toBe(code)
  expect(code).toMatch(/^\/\/ Checks an export of evidence: /)
  const imports = [...code.matchAll(/^import .* from '(.+)'$/gm)].map(([, from]) => from)
  expect(imports.filter((from) => !from?.startsWith('node:'))).toEqual([])
})

test('a valid export passes, with a line for each check', async () => {
  const { code, out } = await run(['--keys', trusted], join(folder, 'good/verify.mjs'))
  expect(out.split('\n').map((line) => line.split(':')[0])).toEqual([
    'ok    keys',
    'ok    manifest',
    'ok    statement',
    'ok    key fingerprint',
    'ok    files',
    'ok    root of the export',
    'ok    checkpoints',
    'ok    chain changes',
    'ok    chain requests-0123456789ab',
    'ok    commits',
    'ok    row count',
    'ok    data.csv',
    'ok    counts',
    'The export is valid.',
    '',
  ])
  expect(out).toContain('40 entries, 1 expunged')
  expect(out).toContain('made by the gateway at 2026-02-01T00:00:01.000Z by its own clock')
  expect(code).toBe(0)
})

test('an export without entries is valid', async () => {
  const { code } = await run([await exportWith(exportParts([], signer)), '--keys', trusted])
  expect(code).toBe(0)
})

test('external keys decide, not those of the export', async () => {
  const [mine, foreign] = await Promise.all(
    [signer, other].map(async ({ published }) => {
      const file = join(folder, `${published.kid}.json`)
      await writeFile(file, JSON.stringify(toKeySet([published])))
      return file
    }),
  )
  expect((await run([join(folder, 'good'), '--keys', mine!])).code).toBe(0)
  const forged = await exportWith({}, other)
  await expectBroken(forged, 'not trusted', ['--keys', mine!])
  await expectBroken(join(folder, 'good'), 'not trusted', ['--keys', foreign!])
})

describe('an export that another party created and signed', () => {
  let forged: string
  beforeAll(async () => {
    forged = await exportWith(exportParts([storedChain(12, 3, other, 'changes')], other), other)
  })

  test.each<[string, () => string[]]>([
    ['no --keys', () => []],
    ['its own key file', () => ['--keys', join(forged, 'keys.json')]],
    ['its own key file by another path', () => [`--keys=${forged}/../${basename(forged)}/keys.json`]],
  ])('is only consistent with %s: exit 11', async (_what, args) => {
    const { code, out } = await run([forged, ...args()])
    expect(out).toMatch(/\nThe export is consistent, but only by the keys that came with it\. .+\n$/)
    expect(out).not.toContain('The export is valid')
    expect(code).toBe(11)
  })

  test.each([
    ['--keys FILE', (file: string) => [forged, '--keys', file]],
    ['--keys=FILE', (file: string) => [forged, `--keys=${file}`]],
    ['--keys in front', (file: string) => ['--keys', file, forged]],
    ['--keys=FILE in front', (file: string) => [`--keys=${file}`, '--', forged]],
  ])('is invalid with %s', async (_what, args) => {
    const { code, out } = await run(args(trusted))
    expect(out).toContain('a key that is not trusted')
    expect(out).toMatch(/The export is NOT valid\.\n$/)
    expect(code).toBe(1)
  })

  test.each<[string, (file: string) => string[]]>([
    ['--keys without a file', () => [forged, '--keys']],
    ['--keys with an empty name', () => [forged, '--keys', '']],
    ['--keys= without a name', () => [forged, '--keys=']],
    ['--keys before another option', () => [forged, '--keys', '--help']],
    ['--keys twice', (file) => [forged, '--keys', file, `--keys=${join(forged, 'keys.json')}`]],
    ['--key', (file) => [forged, '--key', file]],
    ['--key=', (file) => [forged, `--key=${file}`]],
    ['--Keys', (file) => [forged, '--Keys', file]],
    ['--no-keys', () => [forged, '--no-keys']],
    ['-k', (file) => [forged, '-k', file]],
    ['-keys', (file) => [forged, '-keys', file]],
    ['a second directory', (file) => [forged, file]],
    ['an empty directory name', () => ['']],
    ['an unknown option', () => [forged, '--trust']],
    ['--help with a value', () => ['--help=no', forged]],
    ['a missing key file', (file) => [forged, '--keys', `${file}.gone`]],
    ['a folder instead of a key file', () => [forged, '--keys', forged]],
  ])('is not checked with %s', async (_what, args) => {
    const { code, out, err } = await run(args(trusted))
    expect([code, out]).toEqual([2, ''])
    expect(err).toMatch(/^verify\.mjs: .+\n\nUsage: node verify\.mjs \[DIR\] \[--keys FILE\] \[--policy FILE\]\n/)
  })

  test.each(['', 'keys', '{}', '{"keys":[]}', '{"keys":[{}]}'])('is not checked with %j for keys', async (text) => {
    const file = join(folder, `unusable-${text.length}.json`)
    await writeFile(file, text)
    const { code, out, err } = await run([forged, `--keys=${file}`])
    expect([code, out]).toEqual([2, ''])
    expect(err).toContain(`verify.mjs: --keys ${file} cannot be used: `)
    expect(err).toContain('/.well-known/aigw-keys.json')
  })
})

test('--help prints the usage, and checks nothing', async () => {
  for (const flag of ['--help', '-h']) {
    const { code, out, err } = await run([flag])
    expect([code, out, err]).toEqual([0, expect.stringMatching(/^Usage: node verify\.mjs/), ''])
  }
})

test('the content of an export cannot control the terminal', async () => {
  const manifest = { created_at: '\u001b[2J\u009b31m\n2031\u2028\u202e' }
  const { code, out } = await run([await exportWith({ manifest }), '--keys', trusted])
  expect(code).toBe(0)
  expect(out).toContain('\\u{1b}[2J\\u{9b}31m\\u{a}2031\\u{2028}\\u{202e}')
  expect(out.replaceAll('\n', '')).not.toMatch(/[\p{C}\p{Zl}]/u)
})

test.each([
  ['manifest.json', 'is not a manifest'],
  ['manifest.sig', 'is not a signature'],
  ['statement.json', 'is not a statement'],
  ['keys.json', 'contains no published keys'],
])('a %s that is null, a list or a number is none', async (name, says) => {
  for (const text of ['null', '[]', '5', '[null]']) {
    const dir = await exportWith({})
    await writeFile(join(dir, name), text)
    await expectBroken(dir, `${name} ${says}`)
  }
})

describe('after it was signed', () => {
  test.each([
    'data.ndjson',
    'data.csv',
    'commits.ndjson',
    'checkpoints.ndjson',
    'keys.json',
    'README.txt',
    'verify.mjs',
  ])('one more byte in %s is detected', async (name) => {
    const dir = await exportWith({})
    await appendFile(join(dir, name), ' ')
    await expectBroken(dir, `${name} was changed`)
  })

  test.each(['manifest.json', 'manifest.sig', 'statement.json', 'keys.json', 'data.ndjson'])(
    'a missing %s is detected',
    async (name) => {
      const dir = await exportWith({})
      await rm(join(dir, name))
      await expectBroken(dir, name)
    },
  )

  test('another manifest is detected, and so is another file', async () => {
    const dir = await exportWith({})
    await appendFile(join(dir, 'manifest.json'), ' ')
    await expectBroken(dir, 'manifest: statement.json belongs to another manifest')
    const added = await exportWith({})
    await writeFile(join(added, 'more.txt'), '')
    await expectBroken(added, 'more.txt is not part of an export')
  })

  test('a signature of another manifest is detected', async () => {
    const dir = await exportWith({ manifest: { created_at: '2026-03-01T00:00:00.000Z' } })
    await writeFile(join(dir, 'manifest.sig'), await readFile(join(folder, 'good/manifest.sig')))
    await expectBroken(dir, 'manifest: its signature is wrong')
  })

  test('a statement about another manifest is detected', async () => {
    const dir = await exportWith({ manifest: { created_at: '2026-03-01T00:00:00.000Z' } })
    for (const name of ['statement.json', 'manifest.sig']) {
      await writeFile(join(dir, name), await readFile(join(folder, 'good', name)))
    }
    await expectBroken(dir, 'statement.json belongs to another manifest')
  })
})

const at = (seq: number) => rows.findIndex((row) => row.chain !== 'changes' && row.seq === seq)
const row = rows[at(5)]!
const commit = requests.commits.get('commit-1')!
const without = (seq: number) => rows.toSpliced(at(seq), 1)
const checkpoint = checkpointOf(requests.rows)

/** An export of consistent files, in which these requests have no payload. The gateway's store has `rows`. */
const withoutPayloads = (...seqs: number[]): Partial<ExportParts> => {
  const cut = requests.rows.map((row) => (seqs.includes(row.seq) ? { ...row, payload: null } : row))
  return { ...exportParts([changes, { ...requests, rows: cut }], signer), stored: rows }
}
const notesOf = (...sizes: number[]) =>
  sizes.map((size) => {
    const { origin, root } = checkpointOf(requests.rows.slice(0, size))
    return testNote(origin, size, root, signer)
  })
const LOSS = { chain: 'requests-1', cause: 'log_missing', found_at: '', acknowledged_at: null, successor: null }
const withStatement = (change: (statement: ExportStatement) => object): Partial<ExportParts> => ({
  inStatement: (text) => JSON.stringify(change(JSON.parse(text))),
})
const inFirstChain = (change: object) =>
  withStatement((statement) => ({
    ...statement,
    chains: statement.chains.with(0, { ...statement.chains[0]!, ...change }),
  }))

/** Exports whose hashes and signatures are valid, but that differ from the store of the gateway that signed them. */
const INCOMPLETE: [what: string, changed: Partial<ExportParts>, says: string][] = [
  [
    'five payloads set to null',
    withoutPayloads(3, 5, 8, 9, 20, 31),
    `6 entries of chain ${row.chain} have no payload, but 1 had none in the gateway's store`,
  ],
  [
    'another payload set to null than the expunged one',
    withoutPayloads(4),
    `1 entries of chain ${row.chain} have no payload, but in the gateway's store others had none`,
  ],
  [
    'a checkpoint left out',
    { notes: notesOf(10, 40), storedNotes: notesOf(10, 30, 40) },
    `chain ${row.chain} has 1 checkpoints of fewer entries in the export, but 2 in the gateway's store`,
  ],
  ['a checkpoint twice', { notes: notesOf(10, 10), storedNotes: notesOf(10) }, 'has 2 checkpoints of fewer entries'],
  [
    'checkpoints in another order',
    { notes: notesOf(20, 10), storedNotes: notesOf(10, 20) },
    'has 2 checkpoints of fewer entries in the export, but 2 others',
  ],
  [
    'a statement about another tenant',
    withStatement((statement) => ({ ...statement, tenant_id: 'ben' })),
    'statement.json belongs to another tenant',
  ],
  [
    'a statement without a chain',
    withStatement((statement) => ({ ...statement, chains: statement.chains.slice(1) })),
    'the chains of statement.json differ from the manifest',
  ],
  ['a statement about another size', inFirstChain({ size: 11 }), 'the chains of statement.json differ'],
  [
    'a statement with one member more',
    withStatement((statement) => ({ ...statement, note: '' })),
    'statement.json is not a statement',
  ],
  ['a count as a text', inFirstChain({ expunged: '0' }), 'statement.json is not a statement'],
  ['losses without a loss', withStatement((statement) => ({ ...statement, losses: [] })), 'is not a statement'],
  [
    'a loss without a cause',
    withStatement((statement) => ({ ...statement, losses: [{ ...LOSS, cause: null }] })),
    'statement.json is not a statement',
  ],
  [
    'a loss with one member more',
    withStatement((statement) => ({ ...statement, losses: [{ ...LOSS, size: 1 }] })),
    'statement.json is not a statement',
  ],
  [
    'a duplicate member in its statement',
    { inStatement: (text) => text.replace('{', '{"version":1,') },
    'statement.json is not a statement',
  ],
]

test('an export tells how many later entries the log had when it was signed', async () => {
  const later = nextRow(rows.at(-1), {}, 'commit-9', 0)
  const { code, out } = await run([await exportWith({ stored: [...rows, later] }), '--keys', trusted])
  expect(out).toContain('1 payloads expunged; the log had 1 later entries, which the export does not contain')
  expect(code).toBe(0)
})

// Exports that a gateway would not sign. Each shows that the verifier does not rely on the signature of the manifest
// alone.
describe('even if its manifest is signed', () => {
  test.each<[string, Partial<ExportParts>, string]>([
    ['another payload', { rows: rows.with(at(5), { ...row, payload: '{}' }) }, 'entry 5 on: its payload was changed'],
    ['another id', { rows: rows.with(at(5), { ...row, id: 'jti-x' }) }, 'entry 5 on: its entry_hash is wrong'],
    ['a member more', { rows: rows.with(at(5), { ...row, ...{ note: '' } }) }, 'line 18 of data.ndjson is invalid'],
    [
      'another tenant',
      { rows: rows.with(at(5), { ...row, tenant_id: 'x' }) },
      'entry 5 on: it belongs to another chain',
    ],
    [
      'another leaf index',
      { rows: rows.with(at(5), { ...row, leaf_index: 1 }) },
      'entry 5 on: its commit commit-0 does not',
    ],
    [
      'another commit',
      { rows: rows.with(at(5), { ...row, commit_id: 'commit-1' }) },
      'entry 5 on: its commit commit-1 does not contain it',
    ],
    ['a missing entry', { rows: without(5) }, 'entry 5 on: it is missing: entry 6'],
    ['a missing end', { rows: without(39) }, 'the chain has 39 entries, but a checkpoint covers 40'],
    [
      'a forged entry',
      { rows: [...rows, nextRow(rows.at(-1), {}, 'commit-5', 1)] },
      'entry 40 on: its commit commit-5 does not contain it',
    ],
    [
      'a missing commit',
      { commits: parts.commits.filter(({ id }) => id !== 'commit-1') },
      'its commit commit-1 is missing',
    ],
    ['one commit too many', { commits: [...parts.commits, commit] }, 'more commits than its entries need'],
    [
      'a commit with another leaf',
      { commits: parts.commits.with(5, { ...commit, leaves: commit.leaves.with(0, GENESIS_HASH) }) },
      'entry 7 on: its commit commit-1 has a root that does not match its entries',
    ],
    [
      'a commit of an unpublished key',
      { commits: parts.commits.with(5, testCommit('commit-1', commit.leaves, other)) },
      'entry 7 on: its commit commit-1 is signed with a key that is not trusted',
    ],
    [
      'a commit with the signature of another commit',
      { commits: parts.commits.with(5, { ...commit, signature: parts.commits[6]!.signature }) },
      'commit commit-1 has a wrong signature',
    ],
    [
      'a checkpoint with another root',
      { notes: [testNote(checkpoint.origin, 30, Buffer.alloc(32).toString('base64'), signer)] },
      'the first 30 entries do not match the checkpoint',
    ],
    [
      'a checkpoint of another log',
      { notes: [testNote('aigw-test/logs/1', 30, checkpoint.root, signer)] },
      'checkpoints.ndjson names the unknown chain "requests-000000000000"',
    ],
    [
      'a checkpoint of an unpublished key',
      { notes: [testNote(checkpoint.origin, 40, checkpoint.root, other)] },
      'no trusted key has signed it',
    ],
    [
      'a table that says something else',
      { csv: parts.csv.replace('SUCCESS', 'ERROR') },
      'data.csv differs from data.ndjson',
    ],
    [
      'another number of rows',
      { manifest: { rowCount: 51 } },
      'its chains have 52 entries, but its manifest states 51',
    ],
    [
      'another root',
      { manifest: { merkleRootOfExport: GENESIS_HASH } },
      'root of the export: its root does not match its chains',
    ],
    ['another fingerprint', { manifest: { signingKeyFingerprint: other.published.kid } }, 'manifest: it names the key'],
    ['another version', { manifest: { version: 1 } }, 'another version'],
    ...INCOMPLETE,
    ['files left out', { manifest: { files: [] } }, 'manifest.json is not a manifest'],
  ])('%s is found', async (_what, changed, says) => {
    await expectBroken(await exportWith(changed), says)
  })
})
