// What every verifier of an export must refuse, although each signature and each hash is right.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ChainRow } from '../../../src/shared/evidence/chain-check.ts'
import type { CommitRow } from '../../../src/shared/evidence/commit.ts'
import { cosignatureLine, cosignatureText } from '../../../src/shared/evidence/cosignature.ts'
import { entryHash, GENESIS_HASH, logId, payloadHash } from '../../../src/shared/evidence/entry.ts'
import { type PublishedKey, toKeySet } from '../../../src/shared/evidence/keys.ts'
import { keyHashOf } from '../../../src/shared/evidence/note.ts'
import { KEY_TYPE, toVerifierKey } from '../../../src/shared/evidence/verifier-key.ts'
import { type ExportParts, exportParts, writeExport } from '../../shared/evidence/export-folder.ts'
import { type TestSigner, testCommit, testNote, testSigner } from '../../shared/evidence/signer.ts'
import { checkpointOf, nextRow } from '../../shared/evidence/stored-chain.ts'
import {
  pythonVerifiers,
  type ResidentVerifier,
  scriptVerifier,
  writeVerifierModule,
} from '../../shared/evidence/verdicts.ts'
import { sharedResources } from '../../shared-resources.ts'
import { runCli } from '../run-cli.ts'

// The gateway signs the test exports at 2026-02-01T00:00:01.000Z.
const SIGNED_AT_MS = Date.parse('2026-02-01T00:00:01.000Z')
const MINUTE_MS = 60_000
const CHAIN = 'requests-0123456789ab'
const signer = testSigner('aigw-test', '22'.repeat(32))
const thief = testSigner('aigw-test', '44'.repeat(32))
const witness = testSigner('witness.example.com', '55'.repeat(32))

let folder: string
let policyFile: string
let python: ResidentVerifier
let script: ResidentVerifier
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aigw-tails-'))
  policyFile = join(folder, 'policy')
  const vkey = toVerifierKey('witness.example.com', witness.published.publicKey, KEY_TYPE.witness)
  await writeFile(policyFile, `witness w1 ${vkey}\nquorum w1\n`)
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

type Chain = { rows: ChainRow[]; commits: Map<string, CommitRow> }

/** A chain with one entry per commit, of these ages in minutes and by these signers. */
function chainOf(name: string, entries: { ageMin: number; by?: TestSigner; contents?: object }[]): Chain {
  const chain: Chain = { rows: [], commits: new Map() }
  for (const { ageMin, by = signer, contents = { type: 'api_access' } } of entries) {
    const before = chain.rows.at(-1)
    const row = nextRow(before, contents, `${name}-${chain.rows.length}`, 0, name)
    const created_at = new Date(SIGNED_AT_MS - ageMin * MINUTE_MS).toISOString()
    const hash = entryHash({ ...row, created_at }, before?.entry_hash ?? GENESIS_HASH, payloadHash(row.payload ?? ''))
    chain.rows.push({ ...row, created_at, entry_hash: hash })
    chain.commits.set(row.commit_id, testCommit(row.commit_id, [hash], by))
  }
  return chain
}

const ages = (...list: number[]) => list.map((ageMin) => ({ ageMin }))
/** The checkpoint of the first entries of a chain. */
function noteOf({ rows }: Chain, size: number, by: TestSigner = signer): string {
  const { origin, root } = checkpointOf(rows.slice(0, size))
  return testNote(origin, size, root, by)
}
function cosigned(note: string): string {
  const { publicKey } = witness.published
  const name = 'witness.example.com'
  const key = { name, publicKey, type: KEY_TYPE.witness, keyHash: keyHashOf(name, publicKey, KEY_TYPE.witness) }
  const text = note.slice(0, note.indexOf('\n\n') + 1)
  const atSeconds = Math.floor(SIGNED_AT_MS / 1000)
  return note + cosignatureLine(key, atSeconds, witness.sign(cosignatureText(atSeconds, text)))
}

/** Whether each verifier accepts the export, and what `verify.mjs` and `aigw` print. */
async function verdictsOn(chains: Chain[], notes: string[], options: { keys?: PublishedKey[]; policy?: boolean } = {}) {
  const { keys = [signer.published], policy = false } = options
  const parts: ExportParts = { ...exportParts(chains, signer), notes, files: { 'verify.mjs': '// The verifier\n' } }
  const dir = await mkdtemp(join(folder, 'export-'))
  await writeExport(dir, parts, signer)
  const keyFile = `${dir}.json`
  await writeFile(keyFile, JSON.stringify(toKeySet(keys)))
  const args = [dir, '--keys', keyFile, ...(policy ? ['--policy', policyFile] : [])]
  const command = await runCli(['audit', 'verify', ...args], { env: { NO_COLOR: '1' } })
  const verdicts = [command.exitCode === 0 ? 'ok' : command.exitCode === 10 ? 'FAIL' : command.stderr]
  for (const other of [await script.verdict(args), await python.verdict(['verify_export', ...args])])
    verdicts.push(other)
  return { verdicts, says: command.stderr }
}
const OK = ['ok', 'ok', 'ok']
const FAIL = ['FAIL', 'FAIL', 'FAIL']

describe('with a witness policy, every verifier', () => {
  const judge = (chains: Chain[], notes: string[]) => verdictsOn(chains, notes, { policy: true })

  test('refuses an old cosigned checkpoint in place of the largest', async () => {
    const chain = chainOf(CHAIN, ages(300, 290, 200, 100))
    expect(await judge([chain], [cosigned(noteOf(chain, 4))])).toMatchObject({ verdicts: OK })
    for (const notes of [[cosigned(noteOf(chain, 2)), noteOf(chain, 4)], [cosigned(noteOf(chain, 2))]]) {
      const { verdicts, says } = await judge([chain], notes)
      expect([verdicts, says]).toEqual([FAIL, expect.stringContaining('cover only 2 entries')])
    }
  })

  test('accepts later entries that are younger than 70 minutes, and says so', async () => {
    const young = chainOf(CHAIN, ages(300, 290, 69, 1))
    for (const notes of [[cosigned(noteOf(young, 2))], [cosigned(noteOf(young, 2)), noteOf(young, 3)]]) {
      const { verdicts, says } = await judge([young], notes)
      expect([verdicts, says]).toEqual([
        OK,
        expect.stringContaining(`2 of chain ${CHAIN} accepted without cosignature`),
      ])
    }
    const old = chainOf(CHAIN, ages(300, 290, 71, 1))
    expect((await judge([old], [cosigned(noteOf(old, 2))])).verdicts).toEqual(FAIL)
    // An entry of the future would be young for ever.
    const future = chainOf(CHAIN, ages(300, 290, 1, -6))
    expect((await judge([future], [cosigned(noteOf(future, 2))])).verdicts).toEqual(FAIL)
  })

  test('refuses a chain without a checkpoint only if it is older, and one whose only checkpoints lack cosignatures', async () => {
    const [young, old] = [chainOf(CHAIN, ages(60, 1)), chainOf(CHAIN, ages(80, 1))]
    expect((await judge([young], [])).verdicts).toEqual(OK)
    expect((await judge([old], [])).verdicts).toEqual(FAIL)
    expect((await judge([young], [noteOf(young, 2)])).verdicts).toEqual(FAIL)
  })

  test('accepts a log that was closed before its first cosignature if a cosigned entry records it', async () => {
    const closed = chainOf(CHAIN, ages(400, 390))
    const loss = (resource_id: string) => ({ type: 'evidence_management', operation: 'acknowledge_loss', resource_id })
    const changes = (id: string, ageMin = 300) =>
      chainOf('changes', [{ ageMin: 500 }, { ageMin, contents: loss(id) }, { ageMin: 200 }])
    const recorded = changes(logId('acme', CHAIN))
    const { verdicts, says } = await judge([recorded, closed], [cosigned(noteOf(recorded, 3))])
    expect([verdicts, says]).toEqual([
      OK,
      expect.stringContaining('the log is closed, as the cosigned entry 1 of changes'),
    ])
    const notes = [cosigned(noteOf(recorded, 3)), noteOf(closed, 2)]
    expect((await judge([recorded, closed], notes)).verdicts).toEqual(OK)
    // Another log, an entry after the end, and an end that no cosigned checkpoint covers.
    const other = changes(logId('acme', 'changes'))
    expect((await judge([other, closed], [cosigned(noteOf(other, 3))])).verdicts).toEqual(FAIL)
    const early = changes(logId('acme', CHAIN), 396)
    expect((await judge([early, closed], [cosigned(noteOf(early, 3))])).verdicts).toEqual(FAIL)
    const late = chainOf('changes', [{ ageMin: 60 }, { ageMin: 50, contents: loss(logId('acme', CHAIN)) }])
    expect((await judge([late, closed], [cosigned(noteOf(late, 1))])).verdicts).toEqual(FAIL)
  })
})

describe('after a rotation, every verifier', () => {
  // The retired key was valid until two hours before the end of the export.
  const rotatedAt = new Date(SIGNED_AT_MS - 120 * MINUTE_MS).toISOString()
  const stolen: PublishedKey = { ...thief.published, retiredAt: rotatedAt }
  const current: PublishedKey = { ...signer.published, createdAt: rotatedAt }
  const keys = [current, stolen]
  const judge = (chain: Chain, notes: string[]) => verdictsOn([chain], notes, { keys })
  const honest = [{ ageMin: 200, by: thief }, { ageMin: 130, by: thief }, { ageMin: 110 }, { ageMin: 100 }]

  test('accepts entries and checkpoints of both keys', async () => {
    const chain = chainOf(CHAIN, honest)
    expect((await judge(chain, [noteOf(chain, 2, thief), noteOf(chain, 4)])).verdicts).toEqual(OK)
  })

  test('refuses a backdated entry of the retired key behind an entry of the new key', async () => {
    const chain = chainOf(CHAIN, [...honest, { ageMin: 125, by: thief }])
    const { verdicts, says } = await judge(chain, [])
    expect([verdicts, says]).toEqual([FAIL, expect.stringContaining('has signed an earlier entry')])
  })

  test('refuses a checkpoint of the retired key that covers an entry of the new key', async () => {
    // The entry of the new key has a time that the window of the retired key would allow.
    const chain = chainOf(CHAIN, [...honest.slice(0, 2), { ageMin: 119 }])
    expect((await judge(chain, [noteOf(chain, 3)])).verdicts).toEqual(OK)
    const { verdicts, says } = await judge(chain, [noteOf(chain, 3, thief)])
    expect([verdicts, says]).toEqual([FAIL, expect.stringContaining('has signed one of these entries')])
  })

  test('refuses an entry outside of the window of its key', async () => {
    for (const entry of [{ ageMin: 114, by: thief }, { ageMin: 126 }]) {
      const chain = chainOf(CHAIN, [{ ageMin: 200, by: thief }, entry])
      expect((await judge(chain, [])).verdicts).toEqual(FAIL)
    }
  })

  test('accepts a key that was created while the clock was behind, after a key of the right time', async () => {
    // A replacement of a key: its creation is the earliest of all, and its entries are the last.
    const replacement: PublishedKey = { ...signer.published, createdAt: '2020-01-01T00:00:00.000Z' }
    const right: PublishedKey = { ...stolen, createdAt: '2026-01-01T00:00:00.000Z' }
    const chain = chainOf(CHAIN, [{ ageMin: 200, by: thief }, { ageMin: 3_000_000 }, { ageMin: 10 }])
    expect((await verdictsOn([chain], [noteOf(chain, 3)], { keys: [replacement, right] })).verdicts).toEqual(OK)
    const backdated = chainOf(CHAIN, [{ ageMin: 10 }, { ageMin: 200, by: thief }])
    expect((await verdictsOn([backdated], [], { keys: [replacement, right] })).verdicts).toEqual(FAIL)
  })
})
