import { execFile } from 'node:child_process'
import { appendFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { entryHash, GENESIS_HASH, payloadHash } from '../../../src/shared/evidence/entry.ts'
import { toKeySet } from '../../../src/shared/evidence/keys.ts'
import {
  type ExportParts,
  exportParts,
  toCheckpointNote,
  toLines,
  VERIFIERS,
  writeExport,
} from '../../shared/evidence/export-folder.ts'
import { sameBase64, testCommit, testNote, testSigner } from '../../shared/evidence/signer.ts'
import { checkpointOf, nextRow, storedChain } from '../../shared/evidence/stored-chain.ts'
import { pythonVerifiers } from '../../shared/evidence/verdicts.ts'
import { runCli } from '../run-cli.ts'

const EXAMPLES = join(import.meta.dirname, '../../fixtures/evidence')
const signer = testSigner('aigw-test')
const changes = storedChain(5, 3, signer, 'changes')
const requests = storedChain(20, 7, signer)
const parts = exportParts([changes, requests], signer)
const { rows, commits, notes } = parts
const last = rows.at(-1)!
const commit = commits.at(-1)!
/** The manifest of the export as it is right, for what was added behind it. */
const declared = { chains: chainsOf(parts), rowCount: rows.length }

function chainsOf({ rows }: ExportParts) {
  return ['changes', last.chain].map((chain) => {
    const own = rows.filter((row) => row.chain === chain)
    const root = Buffer.from(checkpointOf(own).root, 'base64').toString('hex')
    return { chain, size: own.length, head: own.at(-1)?.entry_hash ?? '', root }
  })
}

let folder: string
let keyFile: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aigw-tampered-'))
  keyFile = join(folder, 'keys.json')
  await writeFile(keyFile, JSON.stringify(toKeySet([signer.published])))
})
afterAll(() => rm(folder, { recursive: true }))

const runScript = (args: string[]) =>
  new Promise<{ exitCode: number; stdout: string }>((resolve) => {
    execFile(process.execPath, [join(VERIFIERS, 'verify.mjs'), ...args], (error, stdout) =>
      resolve({ exitCode: Number(error?.code ?? 0), stdout }),
    )
  })
const runCommand = (args: string[]) => runCli(['audit', 'verify', ...args], { env: { NO_COLOR: '1' } })
const python = pythonVerifiers()
afterAll(() => python.end())
const byPython = (dir: string, keys = ['--keys', keyFile]) => python.verdict(['verify_export', dir, ...keys])
const byScript = async (dir: string, keys = ['--keys', keyFile]) => (await runScript([dir, ...keys])).exitCode
const byCommand = async (dir: string, keys = ['--keys', keyFile]) => (await runCommand([dir, ...keys])).exitCode

const inFile = (name: string, change: (text: string) => string) => async (dir: string) => {
  const path = join(dir, name)
  const text = await readFile(path, 'utf8')
  expect(change(text)).not.toBe(text)
  await writeFile(path, change(text))
}
const inSignature = (change: object) =>
  inFile('manifest.sig', (text) => JSON.stringify({ ...JSON.parse(text), ...change }))
const inManifestSignature = (change: (text: string) => string) =>
  inFile('manifest.sig', (text) => {
    const signature = JSON.parse(text)
    return JSON.stringify({ ...signature, signature: change(signature.signature) })
  })
const { origin, root } = checkpointOf(requests.rows)
const earlyNote = testNote(origin, 7, checkpointOf(requests.rows.slice(0, 7)).root, signer)
const withRows = (change: (text: string) => string) => ({ files: { 'data.ndjson': change(toLines(rows)) } })
/** A commit with members that are no commit's. */
const withCommit = (change: object) => ({ commits: commits.with(-1, { ...commit, ...change }) })
const checkpoint = toCheckpointNote(notes[1]!, rows)
const checkpoints = toLines([checkpoint])
const withCheckpoint = (change: object) => ({
  files: { 'checkpoints.ndjson': toLines([{ ...checkpoint, ...change }]) },
})
const foreign = checkpoint.note.slice(checkpoint.note.indexOf('—')).replace('aigw-test', 'aigw-other')
/** The last commit with a number for its id, as its entries and its signature have it too. */
const numbered = {
  commits: commits.with(-1, Object.assign(testCommit('5', commit.leaves, signer), { id: 5 })),
  rows: rows.map((row) => (row.commit_id === commit.id ? Object.assign({ ...row }, { commit_id: 5 }) : row)),
}
/** A log of one entry, signed as it should be, with a payload that no gateway writes. */
function ofPayload(payload: string): ExportParts {
  const fields = { ...nextRow(undefined, {}, 'commit-0', 0), payload, payload_hash: payloadHash(payload) }
  const row = { ...fields, entry_hash: entryHash(fields, GENESIS_HASH, fields.payload_hash) }
  const commits = new Map([['commit-0', testCommit('commit-0', [row.entry_hash], signer)]])
  return exportParts([{ rows: [row], commits }], signer)
}
/** The same export without the payloads of the first five requests. Its files are consistent. */
const withoutPayloads = exportParts(
  [changes, { ...requests, rows: requests.rows.map((row) => (row.seq < 5 ? { ...row, payload: null } : row)) }],
  signer,
)
/** An export of one entry whose payload contains U+FFFD, with a change in the bytes of data.ndjson. */
function withBytes(change: (text: string) => Buffer): ExportParts {
  const parts = ofPayload('{"type":"\ufffd"}')
  return { ...parts, files: { 'data.ndjson': change(toLines(parts.rows)) } }
}
const behind = nextRow(last, { forged: true }, commit.id, 1)

/** What is signed over these parts is right; what is done to the folder after it was signed is not. */
type Tampering = [what: string, parts: Partial<ExportParts>, after?: (dir: string) => Promise<unknown>]
const TAMPERED: Tampering[] = [
  ['a row behind the last one', { rows: [...rows, behind], manifest: declared }],
  ['the last row once more', { rows: [...rows, last], manifest: declared }],
  ['a commit behind the last one', { commits: [...commits, testCommit('commit-9', [], signer)] }],
  ['commits in another order', { commits: commits.toReversed() }],
  ['a checkpoint of another chain', { notes: [...notes, testNote('aigw-test/logs/0', 3, root, signer)] }],
  [
    'a checkpoint in another name than its signer has',
    { notes: [testNote(origin.replace('-test', ''), 20, root, signer)] },
  ],
  ['a checkpoint beyond the end', { notes: [...notes, testNote(origin, 21, root, signer)] }],
  ['a checkpoint of another root', { notes: [testNote(origin, 19, root, signer)] }],
  ['a row with one member more', { rows: rows.with(7, Object.assign({ more: 1 }, rows[7])) }],
  ['a row without its payload in the changes', { rows: rows.with(2, { ...rows[2]!, payload: null }) }],
  ['a row with another payload', { rows: rows.with(7, { ...rows[7]!, payload: '{}' }) }],
  ['the chains in another order', { manifest: { chains: declared.chains.toReversed() } }],
  ['another number of rows', { manifest: { rowCount: 24 } }],
  ['a table that says something else', { csv: parts.csv.replace('SUCCESS', 'ERROR') }],
  ['another tenant', { manifest: { tenant_id: 'ben' } }],
  ['another file', {}, (dir) => writeFile(join(dir, 'more.txt'), '')],
  ['another README', {}, (dir) => appendFile(join(dir, 'README.txt'), ' ')],
  ['no commits', {}, (dir) => rm(join(dir, 'commits.ndjson'))],
  ['no keys', {}, (dir) => writeFile(join(dir, 'keys.json'), '{}')],
  ['another note beside the signature', {}, inSignature({ note: testNote('aigw-test/exports/0', 25, root, signer) })],
  ['no note beside the signature', {}, inSignature({ note: undefined })],
  ['a payload that is a list', ofPayload('[]')],
  ['a payload that is no JSON', ofPayload('expunged')],
  ['an index as a text', { rows: rows.with(6, Object.assign({ ...rows[6]! }, { leaf_index: '2' })) }],
  ['a leaf in a list', withCommit({ leaves: commit.leaves.map((leaf, at) => (at === 0 ? [leaf] : leaf)) })],
  ['more behind the signature of a commit', withCommit({ signature: `${commit.signature}!!` })],
  ['another base64 of the signature of a commit', withCommit({ signature: sameBase64(commit.signature) })],
  ['a commit of a numbered id', numbered],
  ['a size of a checkpoint as a text', withCheckpoint({ tree_size: String(checkpoint.tree_size) })],
  ['a line below a note that is none', withCheckpoint({ note: `${checkpoint.note}junk\n` })],
  ['a line below a note of one part more', withCheckpoint({ note: `${checkpoint.note.slice(0, -1)} AAAA\n` })],
  ['more behind the signature of a note', withCheckpoint({ note: `${checkpoint.note.slice(0, -1)}!!\n` })],
  ['more lines below a note than any has', withCheckpoint({ note: checkpoint.note + foreign.repeat(100) })],
  ['a checkpoint of nothing with the root of something', { notes: [...notes, testNote(origin, 0, root, signer)] }],
  ['rows that a carriage return ends', withRows((text) => `${text.slice(0, -1).replaceAll('\n', '\r')}\n`)],
  ['rows that a carriage return ends too', withRows((text) => text.replaceAll('\n', '\r\n'))],
  ['spaces in a row', withRows((text) => text.replace('{', '{ '))],
  ['a member of a row twice', withRows((text) => text.replace('{', '{"id":"jti-x",'))],
  ['a member of a commit twice', { files: { 'commits.ndjson': toLines(commits).replace('{', '{"id":"x",') } }],
  ['a member of a checkpoint twice', { files: { 'checkpoints.ndjson': checkpoints.replace('{', '{"chain":"x",') } }],
  ['a member of its manifest twice', { inManifest: (text) => text.replace('{', '{"version":1,') }],
  ['a member of its signature twice', {}, inFile('manifest.sig', (text) => text.replace('{', '{"kid":"",'))],
  ['another base64 of its signature', {}, inManifestSignature(sameBase64)],
  ['spaces in its signature', {}, inManifestSignature((text) => ` ${text.slice(0, 9)} ${text.slice(9)}!!`)],
  ['a signature of another kind', {}, inSignature({ signature: 5 })],
  ['another signature', {}, inSignature({ signature: signer.sign('').toString('base64') })],
  ['five payloads set to null', { ...withoutPayloads, stored: rows }],
  ['payloads that the gateway no longer had', { stored: withoutPayloads.rows }],
  ['a checkpoint of the gateway left out', { storedNotes: [...notes, earlyNote] }],
  ['a statement about another manifest', { inStatement: (text) => text.replace(/("manifest_sha256":")../, '$1ab') }],
  ['a member of its statement twice', { inStatement: (text) => text.replace('{', '{"version":1,') }],
  ['no statement', {}, (dir) => rm(join(dir, 'statement.json'))],
  ['a commit with one member more', { files: { 'commits.ndjson': toLines([{ ...commits[0], more: 1 }]) } }],
  ['a checkpoint with one member more', withCheckpoint({ more: 1 })],
  ['one member more in its manifest', { manifest: { more: 1 } }],
  ['one member more in its signature', {}, inSignature({ more: 1 })],
  ['a lone surrogate that has the hash of U+FFFD', withBytes((text) => Buffer.from(text.replace('\ufffd', '\\ud800')))],
  ['bytes that have the hash of U+FFFD', withBytes((text) => Buffer.from(text.replace('\ufffd', '\u00ff'), 'latin1'))],
  ['no manifest', {}, (dir) => writeFile(join(dir, 'manifest.json'), 'null')],
  ['no signature', {}, (dir) => writeFile(join(dir, 'manifest.sig'), 'null')],
]

test('an export without own keys is rejected without other keys too', async () => {
  const dir = join(folder, 'own')
  await writeExport(dir, parts, signer)
  await writeFile(join(dir, 'keys.json'), '{}')
  const { exitCode } = await runCli(['audit', 'verify', dir], { env: { NO_COLOR: '1' } })
  expect(exitCode).toBe(10)
})

test('an export with duplicate members in its keys is rejected without other keys too', async () => {
  const dir = join(folder, 'twice')
  const keys = (await readFile(keyFile, 'utf8')).replace('"name"', '"name":"other","name"')
  await writeExport(dir, { ...parts, files: { 'keys.json': keys } }, signer)
  expect([await byScript(dir, []), await byCommand(dir, [])]).toEqual([1, 10])
  expect([await byScript(dir), await byCommand(dir)]).toEqual([0, 0])
})

test('every verifier accepts an export', async () => {
  const dir = join(folder, 'good')
  await writeExport(dir, parts, signer)
  expect([await byScript(dir), await byCommand(dir), await byPython(dir)]).toEqual([0, 0, 'ok'])
})

test('both verifiers accept every character that JSON allows unescaped', async () => {
  const row = nextRow(undefined, { model: 'a\u2028b\u2029c\u0085d\u007f' }, 'commit-0', 0)
  const commits = new Map([['commit-0', testCommit('commit-0', [row.entry_hash], signer)]])
  const dir = join(folder, 'characters')
  await writeExport(dir, exportParts([{ rows: [row], commits }], signer), signer)
  expect([await byScript(dir), await byCommand(dir)]).toEqual([0, 0])
})

describe('one that somebody else has made and signed', () => {
  const forger = testSigner('aigw-test')
  const dir = () => join(folder, 'forged')
  beforeAll(() => writeExport(dir(), exportParts([storedChain(5, 3, forger, 'changes')], forger), forger))
  const verify = (...args: string[]) => runCli(['audit', 'verify', ...args], { env: { NO_COLOR: '1' } })
  const verifyReceipt = (...args: string[]) => runCli(['receipts', 'verify', ...args], { env: { NO_COLOR: '1' } })

  test('is only consistent with its own keys, and invalid with all others', async () => {
    for (const args of [[dir()], [dir(), '--keys', join(dir(), 'keys.json')]]) {
      const { exitCode, stderr } = await verify(...args)
      expect([exitCode, stderr]).toEqual([11, expect.stringContaining('only by the keys that came with it')])
      expect([await python.verdict(['verify_export', ...args]), (await runScript(args)).exitCode]).toEqual([
        'EXIT 11',
        11,
      ])
    }
    for (const args of [
      [dir(), '--keys', keyFile],
      [dir(), `--keys=${keyFile}`],
      ['--keys', keyFile, dir()],
    ]) {
      expect([args, (await verify(...args)).exitCode]).toEqual([args, 10])
      expect([await python.verdict(['verify_export', ...args]), (await runScript(args)).exitCode]).toEqual(['FAIL', 1])
    }
  })

  const UNUSABLE: [string, () => string[]][] = [
    ['--keys without a file', () => ['--keys']],
    ['--keys= without a name', () => ['--keys=']],
    ['--keys with an empty name', () => ['--keys', '']],
    ['--keys twice', () => ['--keys', keyFile, '--keys', join(dir(), 'keys.json')]],
    ['--key', () => ['--key', keyFile]],
    ['-k', () => ['-k', keyFile]],
    ['a second directory', () => [keyFile]],
    ['a key file that is not there', () => ['--keys', `${keyFile}.gone`]],
    ['a folder in place of a key file', () => ['--keys', folder]],
    ['keys that are a manifest', () => ['--keys', join(dir(), 'manifest.json')]],
  ]

  test.each(UNUSABLE)('is not checked with %s: exit 2', async (_what, args) => {
    const { exitCode, stdout } = await verify(dir(), ...args())
    expect([exitCode, stdout]).toEqual([2, ''])
  })

  test.each(UNUSABLE)('with %s, a receipt is not checked either: exit 2', async (_what, args) => {
    const receipt = join(EXAMPLES, 'receipt.json')
    expect((await verifyReceipt(receipt, '--keys', join(EXAMPLES, 'keys.json'))).exitCode).toBe(0)
    const { exitCode, stdout } = await verifyReceipt(receipt, ...args())
    expect([exitCode, stdout]).toEqual([2, ''])
  })
})

test.each(TAMPERED)(
  'every verifier rejects an export with %s, and two say the same reason',
  async (what, changed, after) => {
    const dir = join(folder, what)
    await writeExport(dir, { ...parts, ...changed }, signer)
    await after?.(dir)
    const script = await runScript([dir, '--keys', keyFile])
    const command = await runCommand([dir, '--keys', keyFile])
    expect([script.exitCode, command.exitCode, await byPython(dir)]).toEqual([1, 10, 'FAIL'])
    const [, reason] = /^FAIL {2}[^:]+: (.+)$/m.exec(script.stdout) ?? []
    expect(reason).toBeDefined()
    expect(command.stderr).toContain(reason)
  },
)
