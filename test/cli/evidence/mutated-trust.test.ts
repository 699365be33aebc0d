// Every verifier must come to the same verdict on changed bundles, policies and key files. AIGW_MUTATIONS and
// AIGW_MUTATIONS_SEED have the same meaning as in mutated-evidence.test.ts.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { cosignatureLine, cosignatureText } from '../../../src/shared/evidence/cosignature.ts'
import { toKeySet } from '../../../src/shared/evidence/keys.ts'
import { inclusionPath } from '../../../src/shared/evidence/merkle.ts'
import { keyHashOf } from '../../../src/shared/evidence/note.ts'
import { toReceipt } from '../../../src/shared/evidence/receipt.ts'
import { formatTlogProof } from '../../../src/shared/evidence/tlog-proof.ts'
import { KEY_TYPE, toVerifierKey } from '../../../src/shared/evidence/verifier-key.ts'
import { exportParts, writeExport } from '../../shared/evidence/export-folder.ts'
import { mutateText, randomFrom, structuredChanges } from '../../shared/evidence/mutations.ts'
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

const RANDOM = Math.ceil(Number(process.env.AIGW_MUTATIONS ?? 500) / 4)
const SEED = Number(process.env.AIGW_MUTATIONS_SEED ?? 1)
const COSIGNED_AT = Date.parse('2026-02-01T00:00:00.000Z') / 1000

const signer = testSigner('aigw-test', '22'.repeat(32))
const older = testSigner('aigw-older', '33'.repeat(32))
const retired = {
  ...older.published,
  createdAt: '2025-01-01T00:00:00.000Z',
  retiredAt: '2026-01-01T00:00:00.000Z',
}
const keySet = toKeySet([signer.published, retired])
const witnesses = ['w1', 'w2', 'w3'].map((id, at) => {
  const witness = testSigner(`${id}.example.com`, `${at + 5}${at + 5}`.repeat(32))
  const { name, publicKey } = witness.published
  const key = { name, publicKey, type: KEY_TYPE.witness, keyHash: keyHashOf(name, publicKey, KEY_TYPE.witness) }
  const lineOf = (text: string) => cosignatureLine(key, COSIGNED_AT, witness.sign(cosignatureText(COSIGNED_AT, text)))
  return { line: `witness ${id} ${toVerifierKey(name, publicKey, KEY_TYPE.witness)}\n`, lineOf }
})
/** Two of the three witnesses have cosigned. */
const cosigned = (note: string): string =>
  note +
  witnesses
    .slice(0, 2)
    .map(({ lineOf }) => lineOf(note.slice(0, note.indexOf('\n\n') + 1)))
    .join('')
const WITNESSES = witnesses.map(({ line }) => line).join('')
const POLICY = `# who\n${WITNESSES}valid w1 2026-01-31T00:00:00Z 2026-12-31T12:00:00.000Z\ngroup g 2 w1 w2 w3\nquorum g\n`

const chain = storedChain(9, 4, signer)
const made = exportParts([storedChain(4, 2, signer, 'changes'), chain], signer)
const leaves = chain.rows.map((row) => Buffer.from(row.entry_hash, 'hex'))
const head = checkpointOf(chain.rows)
const proofOf = (seq: number) =>
  formatTlogProof({
    index: seq,
    path: inclusionPath(leaves, seq),
    note: cosigned(testNote(head.origin, 9, head.root, signer)),
  })
function receiptOf(seq: number): object {
  const [row, before] = [chain.rows[seq]!, chain.rows[seq - 1]!]
  const entry = { ...row, prev_hash: before.entry_hash }
  return toReceipt(JSON.parse(row.payload ?? ''), entry, chain.commits.get(row.commit_id)!)
}
const bundle = { receipt: receiptOf(4), tlog_proof: proofOf(4) }

let folder: string
let exported: string
let python: ResidentVerifier
let script: ResidentVerifier
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aigw-mutated-'))
  exported = join(folder, 'export')
  const files = { 'verify.mjs': '// The verifier\n', 'keys.json': JSON.stringify(keySet) }
  await writeExport(exported, { ...made, notes: made.notes.map(cosigned), files }, signer)
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

/** Exit code 10 is the FAIL of `aigw`. */
async function command(...words: string[]): Promise<Verdict> {
  const { exitCode, stderr } = await runCli(words, { env: { NO_COLOR: '1' } })
  return exitCode === 0 ? 'ok' : exitCode === 10 ? 'FAIL' : exitCode === 2 ? 'EXIT 2' : `EXIT ${exitCode} ${stderr}`
}

type Given = { bundle?: string; keys?: string; policy?: string }
type Verdicts = Record<string, Verdict>

async function saveAll({ bundle: text = JSON.stringify(bundle), keys, policy }: Given) {
  return {
    file: await save('bundle.json', text),
    keys: await save('keys.json', keys ?? JSON.stringify(keySet)),
    policy: await save('policy', policy ?? POLICY),
  }
}

async function ofBundle(given: Given): Promise<Verdicts> {
  const { file, keys, policy } = await saveAll(given)
  return {
    'aigw receipts verify': await command('receipts', 'verify', file, '--keys', keys, '--policy', policy),
    'verify_receipt.py': await python.verdict(['verify_receipt', 'bundle', file, keys, policy]),
  }
}

async function ofExport(given: Given): Promise<Verdicts> {
  const { keys, policy } = await saveAll(given)
  const args = [exported, '--keys', keys, '--policy', policy]
  return {
    'aigw audit verify': await command('audit', 'verify', ...args),
    'verify.mjs': await script.verdict(args),
    'verify_export.py': await python.verdict(['verify_export', ...args]),
  }
}

const KNOWN = new Set(['ok', 'FAIL', 'EXIT 2'])

/** Returns whether all verifiers accept. Text that cannot be read must not end a verifier unexpectedly. */
function sameVerdict(what: string, verdicts: Verdicts): boolean {
  const all = Object.values(verdicts)
  const same = all.every((verdict) => KNOWN.has(verdict) && (verdict === 'ok') === (all[0] === 'ok'))
  expect(same, `${what}: ${JSON.stringify(verdicts)}`).toBe(true)
  return all[0] === 'ok'
}

/** The verdict on the bundle and on the export, which must be the same here. */
async function verdictOn(what: string, given: Omit<Given, 'bundle'>): Promise<boolean> {
  const holds = sameVerdict(what, await ofBundle(given))
  expect([what, sameVerdict(what, await ofExport(given))]).toEqual([what, holds])
  return holds
}

const entryOf = (receipt: object) => ({ entry: Reflect.get(receipt, 'entry'), kid: Reflect.get(receipt, 'kid') })

test.each<[string, unknown, boolean]>([
  ['unchanged', bundle, true],
  ['in its response', { success: true, bundle }, true],
  [
    'whose receipt contains the receipt of another entry',
    { ...bundle, receipt: { ...entryOf(bundle.receipt), receipt: receiptOf(8) } },
    false,
  ],
  ['whose receipt contains itself', { ...bundle, receipt: { receipt: bundle.receipt } }, false],
  ['with the proof of another entry', { ...bundle, tlog_proof: proofOf(5) }, false],
])('a bundle %s gets the same verdict by each verifier', async (what, value, holds) => {
  expect(sameVerdict(what, await ofBundle({ bundle: JSON.stringify(value) }))).toBe(holds)
})

const [key, old] = keySet.keys
test.each<[string, unknown[], boolean]>([
  ['no key', [], false],
  ['a key twice', [key, old, key], false],
  ['a key twice, retired first', [{ ...key, retired_at: '2025-12-01T00:00:00.000Z' }, old, key], false],
  ['a key twice, retired last', [key, old, { ...key, retired_at: '2025-12-01T00:00:00.000Z' }], false],
  ['a key of 30 February', [{ ...key, created_at: '2025-02-30T00:00:00.000Z' }, old], false],
  ['a key of 24:00', [{ ...key, created_at: '2025-02-01T24:00:00.000Z' }, old], false],
])('a key file with %s gets the same verdict by each verifier', async (what, keys, holds) => {
  expect(await verdictOn(what, { keys: JSON.stringify({ keys }) })).toBe(holds)
})

const valid = (from: string, until = '-') => `${WITNESSES}valid w1 ${from} ${until}\nquorum w1\n`
test.each<[string, string, boolean]>([
  ['two of three', POLICY, true],
  ['all of three', `${WITNESSES}group g all w1 w2 w3\nquorum g\n`, false],
  ['a witness that has not cosigned', `${WITNESSES}quorum w3\n`, false],
  ['quorum none', `${WITNESSES}quorum none\n`, true],
  ['quorum none and no witness', 'quorum none\n', true],
  ['a byte order mark', `\ufeff${POLICY}`, true],
  ['CRLF', POLICY.replaceAll('\n', '\r\n'), false],
  ['tabs', POLICY.replaceAll(' ', '\t'), true],
  ['non-breaking spaces', POLICY.replaceAll(' ', '\u00a0'), false],
  ['a null character in a comment', POLICY.replace('who', '\0'), false],
  ['a time on 30 February', valid('2025-02-30T00:00:00Z'), false],
  ['a time at 24:00', valid('2025-02-01T24:00:00Z'), false],
  ['a leap second', valid('2025-06-30T23:59:60Z'), false],
  ['the year 0', valid('0000-01-01T00:00:00Z'), false],
  ['microseconds', valid('2025-06-30T23:59:59.000000Z'), false],
  ['no times', valid('-'), true],
])('a policy with %s gets the same verdict by each verifier', async (what, policy, holds) => {
  expect(await verdictOn(what, { policy })).toBe(holds)
})

test('every value of a bundle and of a key file replaced: the same verdict by each verifier', async () => {
  let count = 0
  for (const { what, changed } of structuredChanges(bundle)) {
    sameVerdict(`bundle: ${what}`, await ofBundle({ bundle: JSON.stringify(changed) }))
    count += 1
  }
  for (const { what, changed } of structuredChanges(keySet)) {
    sameVerdict(`keys: ${what}`, await ofBundle({ keys: JSON.stringify(changed) }))
    count += 1
  }
  expect(count).toBeGreaterThan(500)
}, 600_000)

test(
  `${RANDOM} random changes get the same verdict by each verifier`,
  async () => {
    const accepted = [0, 0, 0]
    for (let seed = SEED; seed < SEED + RANDOM; seed += 1) {
      const random = randomFrom(seed)
      const mutate = (value: unknown) => mutateText(JSON.stringify(value, null, random(3)), random)
      const kind = random(3)
      const given: Given = [
        () => ({ bundle: mutate(bundle) }),
        () => ({ policy: mutateText(POLICY, random) }),
        () => ({ keys: mutate(keySet) }),
      ][kind]!()
      const what = `AIGW_MUTATIONS_SEED=${seed}: ${JSON.stringify(given)}`
      if (sameVerdict(what, await ofBundle(given))) accepted[kind]! += 1
      if (kind > 0) sameVerdict(what, await ofExport(given))
    }
    // Changes of white space, comments and unread members change nothing. Most changes of a bundle make it invalid.
    expect(accepted[0]).toBeLessThan(RANDOM / 6)
  },
  60_000 + RANDOM * 800,
)
