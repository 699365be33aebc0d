import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ChainCheck, type ChainCheckOptions, type ChainRow } from '../../../src/shared/evidence/chain-check.ts'
import { commitProblem } from '../../../src/shared/evidence/commit.ts'
import { GENESIS_HASH } from '../../../src/shared/evidence/entry.ts'
import { chainOrigin } from '../../../src/shared/evidence/note.ts'
import { testCommit, testSigner } from './signer.ts'
import { checkpointOf, nextRow, type StoredChain, storedChain } from './stored-chain.ts'

const SIZE = 300
const signer = testSigner('aigw-test')
const keys = [signer.published]
const whole = storedChain(SIZE, 30, signer)
// Some payloads are expunged; the checks must work for them too.
const rows = whole.rows.map((row) => (row.seq % 11 === 0 ? { ...row, payload: null } : row))
const checkpoints = [100, 200, SIZE].map((size) => checkpointOf(rows.slice(0, size)))

async function check({ rows, commits }: StoredChain, options: ChainCheckOptions = {}) {
  const chain = new ChainCheck('acme', 'requests-0123456789ab', options)
  for (const row of rows) await chain.add(row, commits.get(row.commit_id))
  return chain.finish()
}

const withRows = (changed: readonly ChainRow[]): StoredChain => ({ rows: [...changed], commits: whole.commits })

/** The position of the first difference between two chains. */
const firstDifference = (changed: readonly ChainRow[]): number => {
  const texts = changed.map((row) => JSON.stringify(row))
  const at = rows.findIndex((row, index) => JSON.stringify(row) !== texts[index])
  return at >= 0 ? at : rows.length
}

const TEXTS = ['tenant_id', 'chain', 'id', 'created_at', 'payload', 'payload_hash', 'entry_hash', 'commit_id'] as const
const pick = <Item>(items: readonly Item[], number: number): Item => items[number % items.length]!

/** Manipulations by someone with access to the table. The numbers select the rows and the position. */
const MUTATIONS: Record<string, (a: number, b: number, c: number) => ChainRow[]> = {
  'a bit of a text is flipped': (a, b, c) => {
    const row = pick(rows, a)
    const column = pick(TEXTS, b)
    // If the payload is missing, one is restored.
    return rows.with(row.seq, { ...row, [column]: flipped(row[column] ?? ' ', c) })
  },
  'a number is changed': (a, b, c) => {
    const row = pick(rows, a)
    return rows.with(
      row.seq,
      b % 2 === 0 ? { ...row, seq: row.seq + c + 1 } : { ...row, leaf_index: row.leaf_index + c + 1 },
    )
  },
  'a row is deleted': (a) => rows.toSpliced(a % SIZE, 1),
  'rows are deleted': (a, b) => rows.toSpliced(a % SIZE, (b % 20) + 1),
  'a row is inserted again': (a, b) => rows.toSpliced(a % (SIZE + 1), 0, pick(rows, b)),
  'a forged row is inserted': (a) => {
    const at = a % (SIZE + 1)
    return rows.toSpliced(at, 0, nextRow(rows[at - 1], { status: 500 }, 'commit-0', 0))
  },
  'two rows change places': (a, b) => {
    const [one, other] = twoOf(a, b)
    return rows.with(one.seq, other).with(other.seq, one)
  },
  'two rows change places and numbers': (a, b) => {
    const [one, other] = twoOf(a, b)
    return rows.with(one.seq, { ...other, seq: one.seq }).with(other.seq, { ...one, seq: other.seq })
  },
  'two payloads change places': (a, b) => {
    const full = rows.filter((row) => row.payload !== null)
    const one = pick(full, a)
    const other = pick(
      full.filter((row) => row !== one),
      b,
    )
    return rows.with(one.seq, { ...one, payload: other.payload }).with(other.seq, { ...other, payload: one.payload })
  },
  'two payloads change places with their hashes': (a, b) => {
    const [one, other] = twoOf(a, b)
    const contents = ({ payload, payload_hash }: ChainRow) => ({ payload, payload_hash })
    return rows.with(one.seq, { ...one, ...contents(other) }).with(other.seq, { ...other, ...contents(one) })
  },
  'the end is cut off': (a) => rows.slice(0, a % SIZE),
  'the rest is rewritten with matching hashes': (a) => {
    const from = a % SIZE
    const forged = rows.slice(0, from)
    while (forged.length < SIZE) {
      const { commit_id, leaf_index } = rows[forged.length]!
      forged.push(nextRow(forged.at(-1), { status: 403 }, commit_id, leaf_index))
    }
    return forged
  },
}

const twoOf = (a: number, b: number): [ChainRow, ChainRow] => {
  const one = a % SIZE
  return [rows[one]!, rows[(one + 1 + (b % (SIZE - 1))) % SIZE]!]
}

function flipped(text: string, at: number): string {
  const bytes = Buffer.from(text)
  bytes[at % bytes.length]! ^= 1 << (at % 8)
  return bytes.toString()
}

describe('10,000 mutations of a stored chain', () => {
  const runs = Math.ceil(10_000 / Object.keys(MUTATIONS).length)

  test.each(Object.entries(MUTATIONS))('%s: found, with the first position', async (_what, mutate) => {
    await fc.assert(
      fc.asyncProperty(fc.nat(), fc.nat(), fc.nat(), async (a, b, c) => {
        const changed = mutate(a, b, c)
        const { ok, firstBad } = await check(withRows(changed), { keys, checkpoints })
        expect({ ok, seq: firstBad?.seq }).toEqual({ ok: false, seq: firstDifference(changed) })
      }),
      { numRuns: runs },
    )
  })
})

test('the original chain is valid, with expunged payloads', async () => {
  const report = await check(withRows(rows), { keys, checkpoints })
  expect(report).toEqual({
    ok: true,
    size: SIZE,
    root: Buffer.from(checkpoints[2]!.root, 'base64').toString('hex'),
    head: rows.at(-1)!.entry_hash,
    expunged: 28,
    checkpointsHeld: 3,
  })
})

test('an empty chain is valid, unless a checkpoint covers entries', async () => {
  expect(await check(withRows([]), { keys, checkpoints: [checkpointOf([])] })).toMatchObject({
    ok: true,
    size: 0,
    head: GENESIS_HASH,
    checkpointsHeld: 1,
  })
  expect(await check(withRows([]), { checkpoints: [checkpoints[0]!] })).toMatchObject({
    ok: false,
    firstBad: { seq: 0 },
  })
})

test('an older state passes as a complete chain unless an external checkpoint is given', async () => {
  const older = withRows(rows.slice(0, 250))
  expect(await check(older, { keys })).toMatchObject({ ok: true, size: 250 })
  expect(await check(older, { keys, checkpoints: checkpoints.slice(0, 2) })).toMatchObject({
    ok: true,
    checkpointsHeld: 2,
  })
  expect(await check(older, { keys, checkpoints })).toMatchObject({
    ok: false,
    firstBad: { seq: 250, problem: 'the chain has 250 entries, but a checkpoint covers 300' },
  })
})

test('a rewritten chain passes without keys until a checkpoint is given, which reports the first difference', async () => {
  const forged = withRows(MUTATIONS['the rest is rewritten with matching hashes']!(130, 0, 0))
  expect(await check(forged)).toMatchObject({ ok: true, size: SIZE })
  expect(await check(forged, { checkpoints })).toMatchObject({ ok: false, firstBad: { seq: 100 }, checkpointsHeld: 1 })
  expect(await check(forged, { keys })).toMatchObject({ ok: false, firstBad: { seq: 130 } })
})

test('a wrong later signature does not hide where a rewritten chain differs first', async () => {
  const forged: StoredChain = { rows: [], commits: new Map() }
  for (const id of ['commit-0', 'commit-1']) {
    for (let leaf = 0; leaf < 30; leaf += 1) forged.rows.push(nextRow(forged.rows.at(-1), { status: 500 }, id, leaf))
    const leaves = forged.rows.slice(-30).map((row) => row.entry_hash)
    forged.commits.set(id, testCommit(id, leaves, signer))
  }
  const given = { keys, checkpoints: [checkpointOf(rows.slice(0, 60))] }
  expect(await check(forged, given)).toMatchObject({ ok: false, firstBad: { seq: 0 } })
  const last = forged.commits.get('commit-1')
  if (last) forged.commits.set('commit-1', { ...last, signature: Buffer.alloc(64).toString('base64') })
  expect(await check(forged, { keys })).toMatchObject({ ok: false, firstBad: { seq: 30 } })
  expect(await check(forged, given)).toMatchObject({ ok: false, firstBad: { seq: 0 } })
})

test('a missing payload is an error in the chain of changes, and normal retention in others', async () => {
  const changes = storedChain(9, 3, signer, 'changes')
  const chain = new ChainCheck('acme', 'changes', { keys })
  for (const row of changes.rows) {
    await chain.add(row.seq === 4 ? { ...row, payload: null } : row, changes.commits.get(row.commit_id))
  }
  expect(await chain.finish()).toMatchObject({ ok: false, firstBad: { seq: 4, problem: 'its payload is missing' } })
})

test('checkpoints of other chains are ignored', async () => {
  const foreign = { ...checkpoints[0]!, origin: chainOrigin('aigw-test', 'other', 'requests-0123456789ab') }
  expect(await check(withRows(rows), { checkpoints: [foreign] })).toMatchObject({ ok: true, checkpointsHeld: 0 })
})

describe('a commit', () => {
  const commit = whole.commits.get('commit-4')!
  const other = testSigner('aigw-test')

  test.each<[string, object]>([
    ['another root', { root: GENESIS_HASH }],
    ['a leaf less', { leaves: commit.leaves.slice(1) }],
    ['a leaf of another tenant changed', { leaves: commit.leaves.with(0, GENESIS_HASH) }],
    ['a leaf that is not a hash', { leaves: commit.leaves.with(0, 'x') }],
    ['another size', { tree_size: commit.tree_size + 1 }],
    ['another signature', { signature: flipped(commit.signature, 9) }],
    ['no signature', { signature: '' }],
    ['another signer', { signer: 'someone' }],
    ['another kid', { kid: other.published.kid }],
    ['the signature of another key', { ...testCommit('commit-4', commit.leaves, other), kid: commit.kid }],
    ['another id', { id: 'commit-5' }],
  ])('with %s is reported at its first entry', async (_what, change) => {
    const changed = { ...commit, ...change }
    expect(commitProblem(changed, keys)).toBeDefined()
    const report = await check({ rows, commits: new Map(whole.commits).set('commit-4', changed) }, { keys })
    // All members except the size are those of the previous entry.
    const before = rows.slice(0, 120)
    const expunged = before.filter(({ payload }) => payload === null).length
    expect(report).toMatchObject({
      ok: false,
      firstBad: { seq: 120 },
      size: SIZE,
      head: before.at(-1)?.entry_hash,
      expunged,
    })
  })

  test('that is missing is reported at its first entry', async () => {
    const commits = new Map(whole.commits)
    commits.delete('commit-4')
    expect(await check({ rows, commits }, { keys })).toMatchObject({
      ok: false,
      firstBad: { seq: 120, problem: 'its commit commit-4 is missing' },
    })
  })

  test('of another key is valid for a verifier that trusts the key', async () => {
    const commits = new Map(whole.commits).set('commit-4', testCommit('commit-4', commit.leaves, other))
    expect(await check({ rows, commits }, { keys: [...keys, other.published] })).toMatchObject({ ok: true })
  })
})
