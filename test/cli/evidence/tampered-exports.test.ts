import { execFile } from 'node:child_process'
import { appendFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { toKeySet } from '../../../src/shared/evidence/keys.ts'
import { type ExportParts, exportParts, VERIFIERS, writeExport } from '../../shared/evidence/export-folder.ts'
import { testCommit, testNote, testSigner } from '../../shared/evidence/signer.ts'
import { checkpointOf, nextRow, storedChain } from '../../shared/evidence/stored-chain.ts'
import { runCli } from '../run-cli.ts'

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

const byScript = (dir: string) =>
  new Promise<number>((resolve) => {
    execFile(process.execPath, [join(VERIFIERS, 'verify.mjs'), dir, '--keys', keyFile], (error) =>
      resolve(Number(error?.code ?? 0)),
    )
  })
const byCommand = async (dir: string) => {
  const { exitCode } = await runCli(['audit', 'verify', dir, '--keys', keyFile], { env: { NO_COLOR: '1' } })
  return exitCode
}

const inFile = (name: string, change: (text: string) => string) => async (dir: string) => {
  const path = join(dir, name)
  const text = await readFile(path, 'utf8')
  expect(change(text)).not.toBe(text)
  await writeFile(path, change(text))
}
const inSignature = (change: object) =>
  inFile('manifest.sig', (text) => JSON.stringify({ ...JSON.parse(text), ...change }))
const { origin, root } = checkpointOf(requests.rows)
const behind = nextRow(last, { forged: true }, commit.id, 1)

/** What is signed over these parts is right; what is done to the folder after it was signed is not. */
type Tampering = [what: string, parts: Partial<ExportParts>, after?: (dir: string) => Promise<unknown>]
const TAMPERED: Tampering[] = [
  ['a row behind the last one', { rows: [...rows, behind], manifest: declared }],
  ['the last row once more', { rows: [...rows, last], manifest: declared }],
  ['a commit behind the last one', { commits: [...commits, testCommit('commit-9', [], signer)] }],
  ['commits in another order', { commits: commits.toReversed() }],
  ['a checkpoint of another chain', { notes: [...notes, testNote('aigw-test/logs/0', 3, root, signer)] }],
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
  ['a signature of another kind', {}, inSignature({ signature: 5 })],
  ['another signature', {}, inSignature({ signature: signer.sign('').toString('base64') })],
  ['no manifest', {}, (dir) => writeFile(join(dir, 'manifest.json'), 'null')],
  ['no signature', {}, (dir) => writeFile(join(dir, 'manifest.sig'), 'null')],
]

test('one whose own keys are none is refused without others too', async () => {
  const dir = join(folder, 'own')
  await writeExport(dir, parts, signer)
  await writeFile(join(dir, 'keys.json'), '{}')
  const { exitCode } = await runCli(['audit', 'verify', dir], { env: { NO_COLOR: '1' } })
  expect(exitCode).toBe(10)
})

test('an export holds by both verifiers', async () => {
  const dir = join(folder, 'good')
  await writeExport(dir, parts, signer)
  expect([await byScript(dir), await byCommand(dir)]).toEqual([0, 0])
})

test.each(TAMPERED)('one with %s is refused by both verifiers', async (what, changed, after) => {
  const dir = join(folder, what)
  await writeExport(dir, { ...parts, ...changed }, signer)
  await after?.(dir)
  expect([await byScript(dir), await byCommand(dir)]).toEqual([1, 10])
})
