// Every verifier must come to the same verdict on changed evidence. AIGW_MUTATIONS sets the number of random changes,
// AIGW_MUTATIONS_SEED the first of their seeds: each change can be repeated from its seed, which a failure names.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { hasDoubledMember } from '../../../src/cli/evidence/doubled-members.ts'
import { splitNotes } from '../../../src/cli/evidence/note-file.ts'
import { isCount, isHash } from '../../../src/shared/evidence/entry.ts'
import { type PublishedKey, toKeySet } from '../../../src/shared/evidence/keys.ts'
import { inclusionPath, rootOfInclusion } from '../../../src/shared/evidence/merkle.ts'
import { NoteError, signedNoteOf } from '../../../src/shared/evidence/note.ts'
import { toReceipt } from '../../../src/shared/evidence/receipt.ts'
import {
  type ExportParts,
  exportParts,
  toCheckpointNote,
  toLines,
  writeExport,
} from '../../shared/evidence/export-folder.ts'
import { mutateText, type Random, randomFrom, structuredChanges } from '../../shared/evidence/mutations.ts'
import { testNote, testSigner } from '../../shared/evidence/signer.ts'
import { checkpointOf, storedChain } from '../../shared/evidence/stored-chain.ts'
import {
  pythonVerifiers,
  type ResidentVerifier,
  scriptVerifier,
  type Verdict,
  writeVerifierModule,
} from '../../shared/evidence/verdicts.ts'
import { sharedResources } from '../../shared-resources.ts'
import { runCli } from '../run-cli.ts'

const RANDOM = Number(process.env.AIGW_MUTATIONS ?? 500)
const SEED = Number(process.env.AIGW_MUTATIONS_SEED ?? 1)
const LIMIT_MS = 60_000 + RANDOM * 400

const signer = testSigner('aigw-test', '22'.repeat(32))
const other = testSigner('aigw-test', '33'.repeat(32))
const changes = storedChain(4, 2, signer, 'changes')
const whole = storedChain(9, 4, signer)
const requests = { ...whole, rows: whole.rows.map((row) => (row.seq === 1 ? { ...row, payload: null } : row)) }
const headOf = (size: number) => checkpointOf(requests.rows.slice(0, size))
const noteOf = (size: number, by = signer) => testNote(headOf(size).origin, size, headOf(size).root, by)
const made = exportParts([changes, requests], signer)
const parts: ExportParts = { ...made, notes: [...made.notes, noteOf(5)], files: { 'verify.mjs': '// The verifier\n' } }
const note = noteOf(9)
const leaves = requests.rows.map((row) => Buffer.from(row.entry_hash, 'hex'))
const proof = {
  chain: requests.rows[0]?.chain,
  index: 3,
  size: 9,
  entry_hash: requests.rows[3]?.entry_hash,
  path: inclusionPath(leaves, 3).map((node) => node.toString('hex')),
}
const receiptRow = requests.rows[4]!
const receipt = toReceipt(
  JSON.parse(receiptRow.payload ?? ''),
  { ...receiptRow, prev_hash: requests.rows[3]!.entry_hash },
  requests.commits.get(receiptRow.commit_id)!,
)

let folder: string
let keyFile: string
let python: ResidentVerifier
let script: ResidentVerifier
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aigw-mutated-'))
  keyFile = await save('keys.json', JSON.stringify(toKeySet([signer.published])))
  await writeExport(join(folder, 'good'), parts, signer)
  python = pythonVerifiers()
  script = scriptVerifier(await writeVerifierModule(folder))
  // The processes stay open from test to test.
  sharedResources.add(python)
})
afterAll(async () => {
  await python.end()
  await script.end()
  sharedResources.delete(python)
  await rm(folder, { recursive: true })
})

async function save(name: string, content: string): Promise<string> {
  const path = join(folder, name)
  await writeFile(path, content)
  return path
}

/** Exit code 10 is the FAIL of `aigw`. A crash is neither. */
async function command(...words: string[]): Promise<Verdict> {
  const { exitCode, stderr } = await runCli(words, { env: { NO_COLOR: '1' } })
  return exitCode === 0 ? 'ok' : exitCode === 10 ? 'FAIL' : exitCode === 2 ? 'EXIT 2' : `EXIT ${exitCode} ${stderr}`
}

type Verdicts = Record<string, Verdict>
/** Text that cannot be read as evidence is either invalid or unusable, but it must not end a verifier unexpectedly. */
const KNOWN = new Set(['ok', 'FAIL', 'EXIT 2'])
let accepted = 0

function expectSame(what: string, verdicts: Verdicts): void {
  const all = Object.values(verdicts)
  const same = all.every((verdict) => KNOWN.has(verdict) && (verdict === 'ok') === (all[0] === 'ok'))
  expect(same, `${what}: ${JSON.stringify(verdicts)}`).toBe(true)
  if (all[0] === 'ok') accepted += 1
}

async function ofExport(dir: string): Promise<Verdicts> {
  const [byScript, byPython, byCommand] = await Promise.all([
    script.verdict([dir, '--keys', keyFile]),
    python.verdict(['verify_export', dir, '--keys', keyFile]),
    command('audit', 'verify', dir, '--keys', keyFile),
  ])
  return { 'aigw audit verify': byCommand, 'verify.mjs': byScript, 'verify_export.py': byPython }
}

async function ofReceipt(text: string): Promise<Verdicts> {
  const file = await save('receipt.json', text)
  return {
    'aigw receipts verify': await command('receipts', 'verify', file, '--keys', keyFile),
    'verify_receipt.py': await python.verdict(['verify_receipt', 'receipt', file, keyFile]),
  }
}

async function ofProof(proofText: string, notes: string): Promise<Verdicts> {
  const [proofFile, noteFile] = [await save('proof.json', proofText), await save('checkpoint.txt', notes)]
  return {
    'the shared code': sharedProof(proofText, notes, [signer.published]) ? 'ok' : 'FAIL',
    'verify_receipt.py': await python.verdict(['verify_receipt', 'proof', proofFile, noteFile, keyFile]),
  }
}

async function ofCheckpoint(notes: string): Promise<Verdicts> {
  const verdicts = await ofProof(JSON.stringify(proof), notes)
  const args = ['--checkpoint', join(folder, 'checkpoint.txt'), '--keys', keyFile]
  return {
    ...verdicts,
    'aigw audit verify --checkpoint': await command('audit', 'verify', join(folder, 'good'), ...args),
  }
}

/** The functions by which `aigw` verifies proofs and notes, put together as verify_receipt.py does. */
function sharedProof(text: string, notes: string, keys: readonly PublishedKey[]): boolean {
  try {
    const json = text.replace(/^\ufeff/, '')
    const { entry_hash, index, size, path } = JSON.parse(json)
    const isProof = isHash(entry_hash) && isCount(index) && isCount(size) && Array.isArray(path) && path.every(isHash)
    if (!isProof || hasDoubledMember(json)) return false
    const nodes = path.map((node) => Buffer.from(node, 'hex'))
    const root = rootOfInclusion(Buffer.from(entry_hash, 'hex'), index, size, nodes)?.toString('base64')
    const signed = splitNotes(notes).whole.flatMap((one) => signedUnlessForeign(one, keys))
    return signed.some(
      ({ checkpoint, signers }) =>
        checkpoint.root === root &&
        checkpoint.size === size &&
        signers.some((name) => /^[0-9a-f]{32}$/.test(checkpoint.origin.replace(`${name}/logs/`, ''))),
    )
  } catch {
    return false
  }
}

function signedUnlessForeign(note: string, keys: readonly PublishedKey[]) {
  try {
    return [signedNoteOf(note, keys)]
  } catch (error) {
    if (error instanceof NoteError && error.message === 'no trusted key has signed it') return []
    throw error
  }
}

test('all verifiers accept the unchanged evidence', async () => {
  const all = [
    await ofExport(join(folder, 'good')),
    await ofReceipt(JSON.stringify(receipt)),
    await ofReceipt(JSON.stringify({ success: true, receipt })),
    await ofProof(JSON.stringify(proof), note),
    await ofCheckpoint(note),
    await ofCheckpoint(`${note}\n${noteOf(5)}`),
  ]
  for (const verdicts of all) expect(new Set(Object.values(verdicts))).toEqual(new Set(['ok']))
})

/** Writes an export with these changes, and compares the verdicts. What is signed covers the changes. */
async function compareExport(what: string, changed: Partial<ExportParts>, after?: (dir: string) => Promise<unknown>) {
  const dir = join(folder, 'mutant')
  await writeExport(dir, { ...parts, ...changed, files: { ...parts.files, ...changed.files } }, signer)
  await after?.(dir)
  expectSame(what, await ofExport(dir))
  await rm(dir, { recursive: true })
}

const lineOf = (values: readonly unknown[], at: number, changed: unknown) =>
  toLines(values.map((value, index) => (index === at ? changed : value)))
const checkpoints = parts.notes.map((one) => toCheckpointNote(one, parts.rows))
const rows = parts.rows
const LISTS: [file: string, values: readonly unknown[], at: number][] = [
  ['data.ndjson', rows, 6],
  ['commits.ndjson', parts.commits, 2],
  ['checkpoints.ndjson', checkpoints, 2],
]
const oneOfEach = (json: { chains: unknown[]; files?: unknown[] }) =>
  structuredChanges({ ...json, chains: json.chains.slice(0, 1), ...(json.files && { files: json.files.slice(0, 1) }) })

test('every value of an export replaced by strange values: the same verdict by each verifier', async () => {
  let count = 0
  for (const [file, values, at] of LISTS) {
    for (const { what, changed } of structuredChanges(values[at])) {
      await compareExport(`${file}: ${what}`, { files: { [file]: lineOf(values, at, changed) } })
      count += 1
    }
  }
  const read = async (name: string) => JSON.parse(await readFile(join(folder, 'good', name), 'utf8'))
  for (const [name, member] of [
    ['manifest.json', 'inManifest'],
    ['statement.json', 'inStatement'],
  ] as const) {
    const json = { ...(await read(name)), ...(name === 'statement.json' && { losses: [LOSS] }) }
    for (const { what, changed } of oneOfEach(json)) {
      const { chains, files, ...others } = Object(changed)
      const text = (own: string) => {
        const honest = JSON.parse(own)
        const rest = { manifest_sha256: honest.manifest_sha256, ...others }
        if (!Array.isArray(chains)) return JSON.stringify({ ...rest, chains, files })
        const allFiles = Array.isArray(files) ? { files: [...files, ...honest.files.slice(1)] } : { files }
        const allChains = { chains: [...chains, ...honest.chains.slice(1)] }
        return JSON.stringify({ ...rest, ...allChains, ...(name === 'manifest.json' && allFiles) })
      }
      await compareExport(`${name}: ${what}`, { [member]: text })
      count += 1
    }
  }
  for (const { what, changed } of structuredChanges(await read('manifest.sig'))) {
    await compareExport(`manifest.sig: ${what}`, {}, (dir) =>
      writeFile(join(dir, 'manifest.sig'), JSON.stringify(changed)),
    )
    count += 1
  }
  expect(count).toBeGreaterThan(500)
}, 1_200_000)

test('every value of a receipt and of a proof replaced by strange values: the same verdict by each verifier', async () => {
  let count = 0
  for (const { what, changed } of structuredChanges(receipt)) {
    expectSame(`receipt: ${what}`, await ofReceipt(JSON.stringify(changed)))
    count += 1
  }
  for (const { what, changed } of structuredChanges(proof)) {
    expectSame(`proof: ${what}`, await ofProof(JSON.stringify(changed), note))
    count += 1
  }
  expect(count).toBeGreaterThan(500)
}, 600_000)

const [text = '', lines = ''] = note.split('\n\n')
const NOTES: [what: string, notes: string][] = [
  ['CRLF', note.replaceAll('\n', '\r\n')],
  ['no newline at its end', note.slice(0, -1)],
  ['two empty lines', note.replace('\n\n', '\n\n\n')],
  ['an extension line', `${text}\nmore\n\n${lines}`],
  ['a signature of another key too', `${note}${noteOf(9, other).split('\n\n')[1]}`],
  ['a signature of another key first', `${text}\n\n${noteOf(9, other).split('\n\n')[1]}${lines}`],
  ['the signature of another key only', noteOf(9, other)],
  ['its signature twice', `${note}${lines}`],
  ['a broken signature line too', `${note}— aigw-test AAAA\n`],
  ['a truncated second note', `${note}\n${note.slice(0, -30)}`],
  ['a truncated note in front', `${note.slice(0, -30)}\n${note}`],
  ['only a truncated note', note.slice(0, -30)],
  ['text in front', `hello\n${note}`],
  ['text and an empty line in front', `hello\n\n${note}`],
  ['text behind', `${note}hello\n`],
  ['a byte order mark', `\ufeff${note}`],
  ['a size with a zero in front', note.replace('\n9\n', '\n09\n')],
  ['another size', note.replace('\n9\n', '\n8\n')],
  ['a smaller checkpoint', noteOf(5)],
  ['101 signatures', note + lines.repeat(100)],
]

test.each(NOTES)('a checkpoint with %s gets the same verdict by each verifier', async (what, notes) => {
  const verdicts = await ofProof(JSON.stringify(proof), notes)
  expectSame(what, verdicts)
})

const FILES = [
  ...['data.ndjson', 'data.csv', 'commits.ndjson', 'checkpoints.ndjson', 'keys.json', 'README.txt'],
  ...['manifest.json', 'statement.json', 'manifest.sig'],
]
const SIGNED = ['data.ndjson', 'data.csv', 'commits.ndjson', 'checkpoints.ndjson', 'keys.json']

const LOSS = { chain: 'requests-1', cause: 'log_missing', found_at: '', acknowledged_at: '', successor: null }

/** One random change: in a file after it was signed, or in what is signed. */
async function randomExport(random: Random, what: string): Promise<void> {
  const mutate = (text: string) => mutateText(text, random)
  switch (random(4)) {
    case 0: {
      const name = FILES[random(FILES.length)]!
      const file = (dir: string) => join(dir, name)
      return compareExport(`${what}, ${name}`, {}, async (dir) =>
        writeFile(file(dir), mutate(await readFile(file(dir), 'utf8'))),
      )
    }
    case 1:
      return compareExport(`${what}, manifest`, { inManifest: mutate })
    case 2:
      return compareExport(`${what}, statement`, { inStatement: mutate })
    default: {
      const name = SIGNED[random(SIGNED.length)]!
      const changed = mutate(await readFile(join(folder, 'good', name), 'utf8'))
      return compareExport(`${what}, signed ${name}`, { files: { [name]: changed } })
    }
  }
}

async function randomChange(seed: number): Promise<void> {
  const random = randomFrom(seed)
  const what = `AIGW_MUTATIONS_SEED=${seed}`
  const kind = random(10)
  if (kind < 3) return randomExport(random, what)
  if (kind < 6) return expectSame(what, await ofReceipt(mutateText(JSON.stringify(receipt, null, random(3)), random)))
  if (kind < 8) return expectSame(what, await ofProof(mutateText(JSON.stringify(proof, null, 2), random), note))
  return expectSame(what, await ofCheckpoint(mutateText(note, random)))
}

test(
  `${RANDOM} random changes get the same verdict by each verifier`,
  async () => {
    accepted = 0
    for (let seed = SEED; seed < SEED + RANDOM; seed += 1) await randomChange(seed)
    // Changes of white space, of unread members or of unsigned files leave evidence valid. Most changes do not.
    expect(accepted).toBeLessThan(RANDOM / 4)
  },
  LIMIT_MS,
)
