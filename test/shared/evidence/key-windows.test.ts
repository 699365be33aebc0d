import { execFileSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { verifyBundle } from '../../../src/shared/evidence/bundle.ts'
import { ChainCheck } from '../../../src/shared/evidence/chain-check.ts'
import { type PublishedKey, timeOf, toKeySet } from '../../../src/shared/evidence/keys.ts'
import { type Checkpoint, parseCheckpoint, signedNote, verifyNote } from '../../../src/shared/evidence/note.ts'
import { verifyReceipt } from '../../../src/shared/evidence/receipt.ts'
import { formatTlogProof } from '../../../src/shared/evidence/tlog-proof.ts'
import { exampleCheckpoint, exampleProof, exampleReceipt, exampleSigner } from './example.ts'
import { testNote, testSigner } from './signer.ts'
import { checkpointOf, storedChain } from './stored-chain.ts'

const PYTHON = fileURLToPath(new URL('../../../docs/verifiers/verify_receipt.py', import.meta.url))
// The entry of the example is of 2026-01-31T12:00:01.000Z.
const key = exampleSigner.published
const older = { ...testSigner('older').published, createdAt: '2025-01-01T00:00:00.000Z' }
const with_ = (changed: Partial<PublishedKey>, ...others: PublishedKey[]) => [{ ...key, ...changed }, ...others]

test.each([
  ['in the window', with_({}, older), true],
  ['within the tolerance after the retirement', with_({ retiredAt: '2026-01-31T11:56:00.000Z' }), true],
  ['after the retirement', with_({ retiredAt: '2026-01-31T11:54:00.000Z' }), false],
  ['within the tolerance before the creation', with_({ createdAt: '2026-01-31T12:04:00.000Z' }, older), true],
  ['before the creation', with_({ createdAt: '2026-01-31T12:06:00.000Z' }, older), false],
  // The first key also signs the entries that were written before it.
  ['before the creation of the first key', with_({ createdAt: '2026-01-31T12:06:00.000Z' }), true],
])('a receipt of an entry %s of its key', async (_, keys, holds) => {
  expect(verifyReceipt(exampleReceipt, keys).ok).toBe(holds)
  const folder = await mkdtemp(join(tmpdir(), 'aigw-windows-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const [receiptFile, keyFile] = [join(folder, 'receipt.json'), join(folder, 'keys.json')]
  await writeFile(receiptFile, JSON.stringify(exampleReceipt))
  await writeFile(keyFile, JSON.stringify(toKeySet(keys)))
  const python = () => execFileSync('python3', ['-B', PYTHON, 'receipt', receiptFile, keyFile], { stdio: 'pipe' })
  if (holds) python()
  else expect(python).toThrow('not valid')
})

test.each([
  ['newer', '2026-01-31T13:00:00.000Z', true],
  ['older', '2026-01-31T12:10:00.000Z', false],
])(
  'a bundle whose checkpoint is signed with a key that is %s than the key of its entry',
  async (_, retiredAt, holds) => {
    const other = testSigner('aigw-example')
    const { text } = parseCheckpoint(exampleCheckpoint)
    const note = signedNote(text, 'aigw-example', other.published.publicKey, other.sign(text))
    const path = exampleProof.path.map((node) => Buffer.from(node, 'hex'))
    const bundle = { receipt: exampleReceipt, tlog_proof: formatTlogProof({ index: 1, path, note }) }
    const keys = [
      { ...key, retiredAt: '2026-01-31T12:20:00.000Z' },
      { ...other.published, retiredAt },
    ]
    expect(verifyBundle(bundle, { keys, nowMs: Date.now() }).ok).toBe(holds)
    const folder = await mkdtemp(join(tmpdir(), 'aigw-windows-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    const [bundleFile, keyFile] = [join(folder, 'bundle.json'), join(folder, 'keys.json')]
    await writeFile(bundleFile, JSON.stringify(bundle))
    await writeFile(keyFile, JSON.stringify(toKeySet(keys)))
    const python = () => execFileSync('python3', ['-B', PYTHON, 'bundle', bundleFile, keyFile], { stdio: 'pipe' })
    if (holds) python()
    else expect(python).toThrow('older than the key of the entry')
  },
)

const signer = testSigner('aigw-test')
// One entry a second from 2026-01-01T00:00:00.000Z on.
const chain = storedChain(700, 10, signer)

async function check(keys: PublishedKey[], checkpoints: Checkpoint[] = []) {
  const checked = new ChainCheck('acme', 'requests-0123456789ab', { keys, checkpoints })
  for (const row of chain.rows) await checked.add(row, chain.commits.get(row.commit_id))
  return checked.finish()
}

test('a chain is invalid from the first entry after the retirement of its key', async () => {
  expect((await check([signer.published])).ok).toBe(true)
  const { ok, firstBad } = await check([{ ...signer.published, retiredAt: '2026-01-01T00:01:00.000Z' }])
  expect([ok, firstBad]).toEqual([false, { seq: 361, problem: expect.stringContaining('which was not valid at') }])
})

test('a checkpoint is invalid if its last entry is younger than the retirement of its key', async () => {
  const other = testSigner('aigw-test')
  const { origin, size, root } = checkpointOf(chain.rows)
  const note = testNote(origin, size, root, other)
  const checkpointBy = (retiredAt: string | null) => verifyNote(note, [{ ...other.published, retiredAt }])
  expect((await check([signer.published], [checkpointBy(null)])).checkpointsHeld).toBe(1)
  const older = { ...signer.published, retiredAt: '2026-01-01T00:09:00.000Z' }
  expect((await check([older], [checkpointBy('2026-01-01T00:10:00.000Z')])).ok).toBe(true)
  const { ok, firstBad } = await check([signer.published], [checkpointBy('2026-01-01T00:06:00.000Z')])
  expect([ok, firstBad?.problem]).toEqual([false, expect.stringContaining('was retired at 2026-01-01T00:06:00.000Z')])
})

test('a time has one notation, so that all verifiers agree about it', () => {
  expect(timeOf('2026-01-31T12:00:00.000Z')).toBe(Date.UTC(2026, 0, 31, 12))
  for (const text of [
    '2026-01-31',
    '2026-01-31T12:00:00Z',
    '2026-02-31T12:00:00.000Z',
    '2026-01-31T24:00:00.000Z',
    '',
    null,
    0,
  ])
    expect([text, timeOf(text)]).toEqual([text, Number.NaN])
})
