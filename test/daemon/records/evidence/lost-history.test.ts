import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Db } from '../../../../src/daemon/platform/db/db.ts'
import { listLosses } from '../../../../src/daemon/records/evidence/losses.ts'
import { ALWAYS } from '../../../../src/shared/evidence/cosignature.ts'
import { parseKeySet } from '../../../../src/shared/evidence/keys.ts'
import { EVIDENCE_KEY_CACHE_MS } from '../../../../src/shared/spec-limits.ts'
import { ListLossesResponse } from '../../../../src/shared/wire/evidence.ts'
import { ReadyzResponse } from '../../../../src/shared/wire/system.ts'
import { describeEachEngine, postgresEngine } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { type Gateway, startGateway } from '../../../harness.ts'
import { closeAfterTest } from '../../../leftovers.ts'
import { startWitness } from '../../../witness.ts'

const fileIn = (folder: string): string => join(folder, 'checkpoints')
const BASE = '/api/external/transparency'

const readiness = async (gateway: Gateway) => {
  const { status, body } = await gateway.call('GET', '/readyz', undefined, { key: null })
  return { http: status, ...ReadyzResponse.strict().parse(body) }
}
const READY = { http: 200, status: 'ready', checks: { evidence: true } }
const degraded = (...causes: string[]) => ({
  http: 200,
  status: 'degraded',
  checks: { store: true, evidence: false },
  lost_history: causes,
})

/** The number of entries of each chain. */
async function sizesOf(db: Db): Promise<Record<string, number>> {
  const rows = await db.selectFrom('evidence_entries').select('chain').execute()
  const sizes: Record<string, number> = {}
  for (const { chain } of rows) sizes[chain] = (sizes[chain] ?? 0) + 1
  return sizes
}
const checkpointed = async (db: Db) =>
  (await db.selectFrom('evidence_checkpoints').select(['chain', 'tree_size']).execute()).map(
    ({ chain, tree_size }) => `${chain} ${tree_size}`,
  )

async function ask(gateway: Gateway, times = 1): Promise<string> {
  let id = ''
  for (let time = 0; time < times; time++) {
    const { status, body } = await gateway.chat({ prompt: 'Hello' })
    expect(status).toBe(200)
    id = body.metadata?.smltp?.bundle_id as string
  }
  return id
}
const addGroup = (gateway: Gateway, name: string) =>
  gateway.call('POST', '/api/external/groups', { name, description: 'A group' })
const makeCheckpoints = (gateway: Gateway) => gateway.call('POST', `${BASE}/checkpoints`, {})

async function lossesOf(gateway: Gateway) {
  const { status, body } = await gateway.call('GET', `${BASE}/losses`)
  expect(status).toBe(200)
  return ListLossesResponse.strict().parse(body).losses
}
async function acknowledgeAll(gateway: Gateway): Promise<void> {
  for (const { id, acknowledged_at } of await lossesOf(gateway)) {
    if (acknowledged_at !== null) continue
    const path = `${BASE}/losses/${encodeURIComponent(id)}/acknowledge`
    const { status, text } = await gateway.call('POST', path, { reason: 'The disk was replaced.' })
    expect(status, text).toBe(200)
    expect((await gateway.call('POST', path, {})).status).toBe(404)
  }
}

/** Cuts each chain to half its entries, as if an older copy of the store had been restored. */
async function rollBack(db: Db): Promise<void> {
  for (const [chain, size] of Object.entries(await sizesOf(db))) {
    await db
      .deleteFrom('evidence_entries')
      .where('chain', '=', chain)
      .where('seq', '>=', Math.ceil(size / 2))
      .execute()
  }
  await db.deleteFrom('evidence_checkpoints').execute()
  await db.deleteFrom('evidence_nodes').execute()
  await db.deleteFrom('evidence_losses').execute()
}

describeEachEngine('lost history', (engine) => {
  let folder: string
  let groups = 0
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'aigw-lost-'))
  })
  afterEach(() => rm(folder, { recursive: true }))

  /** A gateway with two chains of six entries or more, checkpoints of both, and their file. */
  async function startWithHistory(evidence: { checkpointFile?: string } = { checkpointFile: fileIn(folder) }) {
    const clock = createFakeClock()
    const gateway = await startGateway({ engine, clock, evidence })
    await addGroup(gateway, 'first')
    await ask(gateway, 6)
    for (const name of ['second', 'third', 'fourth']) await addGroup(gateway, name)
    expect((await makeCheckpoints(gateway)).status).toBe(200)
    return { gateway, clock, file: fileIn(folder), sizes: await sizesOf(gateway.app.db) }
  }

  /** Checks that requests and changes are served, and are appended only to chains that did not exist before. */
  async function expectNothingContinues(gateway: Gateway): Promise<void> {
    const { db } = gateway.app
    const [before, notes] = [await sizesOf(db), await checkpointed(db)]
    const id = await ask(gateway)
    expect((await addGroup(gateway, `group-${++groups}`)).status).toBe(201)
    const { receipt } = (await gateway.call('GET', `/api/external/receipts/${id}`)).body
    expect(before[receipt.entry.chain] ?? 0).toBe(receipt.entry.seq)
    await makeCheckpoints(gateway)
    const after = await sizesOf(db)
    const closed = (await listLosses(db)).flatMap(({ chain }) => chain ?? [])
    expect(closed.length).toBeGreaterThan(0)
    for (const chain of closed) expect([chain, after[chain]]).toEqual([chain, before[chain]])
    const added = (await checkpointed(db)).filter((note) => !notes.includes(note))
    expect(added.filter((note) => closed.some((chain) => note.startsWith(`${chain} `)))).toEqual([])
    expect(added.length).toBeGreaterThan(0)
    const grown = Object.keys(after).filter((chain) => after[chain] !== before[chain])
    expect(grown.filter((chain) => closed.includes(chain))).toEqual([])
  }

  /**
   * Checks that an operator can acknowledge the losses, and that this lasts and is recorded. `removed` earlier
   * acknowledgements are not in the log anymore.
   */
  async function expectAcknowledgeable(gateway: Gateway, { removed = 0 } = {}): Promise<void> {
    expect((await gateway.call('GET', `${BASE}/status`)).body.status).toBe('degraded')
    const count = (await lossesOf(gateway)).length
    await acknowledgeAll(gateway)
    expect(await readiness(gateway)).toMatchObject(READY)
    expect((await gateway.call('GET', `${BASE}/status`)).body.status).toBe('operational')
    const { body } = await gateway.call('GET', `${BASE}/search?q=${encodeURIComponent('acknowledged lost history')}`)
    expect(body.totalResults).toBe(count - removed)
    expect(JSON.stringify(body.results)).toContain('The disk was replaced.')
    expect((await makeCheckpoints(gateway)).status).toBe(200)
    await gateway.restart()
    expect(await readiness(gateway)).toMatchObject(READY)
    expect((await gateway.call('GET', `${BASE}/status`)).body.status).toBe('operational')
    expect(await ask(gateway)).not.toBe('')
  }

  test('does not exist in a fresh store, nor after restarts, nor with a file that is configured later', async () => {
    const { gateway } = await startWithHistory({})
    expect(await readiness(gateway)).toMatchObject(READY)
    await gateway.restart()
    expect(await readiness(gateway)).toMatchObject(READY)
    const file = fileIn(folder)
    Object.assign(gateway.config.evidence ?? {}, { checkpointFile: file })
    for (let start = 0; start < 2; start++) {
      await gateway.restart()
      // The status waits for the comparison, which writes the file.
      expect((await gateway.call('GET', `${BASE}/status`)).body.status).toBe('operational')
      expect(await readiness(gateway)).toMatchObject(READY)
      expect(await readFile(file, 'utf8')).toContain('/logs/')
    }
    expect(await lossesOf(gateway)).toEqual([])
  })

  test.each(['with entries', 'with checkpoints only'])(
    'of the signing keys %s closes all chains, and is not hidden by a new key',
    async (what) => {
      const { gateway } = await startWithHistory({})
      const { db } = gateway.app
      await db.deleteFrom('evidence_keys').execute()
      if (what === 'with checkpoints only') {
        await db.deleteFrom('evidence_entries').execute()
        await db.deleteFrom('evidence_commits').execute()
      }
      await gateway.restart()
      const causes = what === 'with entries' ? ['key_missing'] : ['entries_missing', 'key_missing']
      expect(await readiness(gateway)).toMatchObject(degraded(...causes))
      expect(gateway.log).toContainEqual(
        expect.objectContaining({ level: 'error', facts: expect.objectContaining({ causes }) }),
      )
      await expectNothingContinues(gateway)
      await gateway.restart()
      expect(await readiness(gateway)).toMatchObject(degraded(...causes))
      await expectAcknowledgeable(gateway)
    },
  )

  test('of a retired key is noticed, and closes no chain', async () => {
    const { gateway, clock } = await startWithHistory({})
    await gateway.call('POST', `${BASE}/keys/rotate`)
    clock.advance(1_000)
    await ask(gateway)
    expect((await makeCheckpoints(gateway)).status).toBe(200)
    await gateway.app.db.deleteFrom('evidence_keys').where('retired_at', 'is not', null).execute()
    await gateway.restart()
    expect(await readiness(gateway)).toMatchObject(degraded('key_missing'))
    expect(await lossesOf(gateway)).toMatchObject([{ cause: 'key_missing', chain: null, successor: null }])
    await expectAcknowledgeable(gateway)
  })

  test('of the whole store is noticed by the checkpoint file', async () => {
    const { gateway } = await startWithHistory()
    const { db } = gateway.app
    for (const table of ['evidence_keys', 'evidence_entries', 'evidence_commits', 'evidence_checkpoints'] as const) {
      await db.deleteFrom(table).execute()
    }
    await gateway.restart()
    expect(await readiness(gateway)).toMatchObject(degraded('entries_missing', 'key_missing', 'store_replaced'))
    await expectNothingContinues(gateway)
    await expectAcknowledgeable(gateway)
  })

  const SIGNED = ['evidence_keys', 'evidence_commits', 'evidence_checkpoints'] as const
  test.each([
    ['but not the entries', SIGNED],
    ['and the entries', [...SIGNED, 'evidence_entries'] as const],
    ['and everything about the log', [...SIGNED, 'evidence_entries', 'evidence_nodes', 'log_positions'] as const],
  ])('of the keys, the commits, the checkpoints %s is noticed, each time', async (_, tables) => {
    const { gateway, clock } = await startWithHistory({})
    let acknowledged = 0
    for (let time = 0; time < 2; time++) {
      const chains = Object.keys(await sizesOf(gateway.app.db))
      for (const table of tables) await gateway.app.db.deleteFrom(table).execute()
      clock.advance(1_000)
      await gateway.restart()
      const causes = tables.length === SIGNED.length ? ['commit_missing', 'key_missing'] : ['key_missing']
      expect(await readiness(gateway)).toMatchObject(degraded(...causes))
      const closed = (await listLosses(gateway.app.db)).flatMap(({ chain }) => chain ?? [])
      expect(closed).toEqual(expect.arrayContaining(chains))
      await expectNothingContinues(gateway)
      await expectAcknowledgeable(gateway, { removed: tables.length === SIGNED.length ? 0 : acknowledged })
      acknowledged = (await listLosses(gateway.app.db)).length
    }
  })

  test('of the commit of a last entry closes its chain', async () => {
    const { gateway } = await startWithHistory({})
    const { db } = gateway.app
    const last = await db.selectFrom('evidence_entries').selectAll().where('chain', '=', 'changes').execute()
    await db
      .deleteFrom('evidence_commits')
      .where('id', '=', last.at(-1)?.commit_id ?? '')
      .execute()
    await gateway.restart()
    expect(await readiness(gateway)).toMatchObject(degraded('commit_missing'))
    expect((await lossesOf(gateway)).map(({ chain }) => chain)).toEqual(['changes'])
    await expectNothingContinues(gateway)
    await expectAcknowledgeable(gateway)
  })

  test('is not assumed in a store that is older than the log', async () => {
    const { gateway } = await startWithHistory({})
    const { db } = gateway.app
    for (const table of [...SIGNED, 'evidence_entries', 'evidence_nodes', 'log_positions'] as const)
      await db.deleteFrom(table).execute()
    await sql`drop table evidence_unsigned`.execute(db)
    await sql`delete from kysely_migration where name = '0031-evidence-unsigned'`.execute(db)
    for (let start = 0; start < 2; start++) {
      await gateway.restart()
      expect(await readiness(gateway)).toMatchObject(READY)
      await ask(gateway)
    }
    expect(await lossesOf(gateway)).toEqual([])
    // The exception does not outlast the first key.
    await gateway.app.db.deleteFrom('evidence_keys').execute()
    await gateway.restart()
    expect(await readiness(gateway)).toMatchObject(degraded('key_missing'))
  })

  test('that another daemon has found closes the log before its own daemon continues it', async () => {
    const { gateway } = await startWithHistory()
    const { dataDir } = gateway.config
    const own = (await readFile(join(dataDir, 'daemon.id'), 'utf8')).trim()
    const { db } = gateway.app
    for (const table of ['evidence_entries', 'evidence_checkpoints', 'evidence_nodes', 'log_positions'] as const)
      await db.deleteFrom(table).where('chain', '=', `requests-${own}`).execute()
    // Another daemon on the same store, with the same file.
    await writeFile(join(dataDir, 'daemon.id'), 'aaaaaaaaaaaa')
    await gateway.restart()
    expect((await gateway.call('GET', `${BASE}/status`)).body.status).toBe('degraded')
    expect(await lossesOf(gateway)).toMatchObject([{ cause: 'log_missing', chain: null, successor: null }])
    await acknowledgeAll(gateway)
    await writeFile(join(dataDir, 'daemon.id'), own)
    await gateway.restart()
    expect(await readiness(gateway)).toMatchObject(degraded('entries_missing'))
    expect(await lossesOf(gateway)).toMatchObject([{ cause: 'entries_missing', chain: `requests-${own}` }])
    await expectNothingContinues(gateway)
    expect(Object.keys(await sizesOf(gateway.app.db))).not.toContain(`requests-${own}`)
  })

  test('that a witness reports lasts over a restart, and the acknowledgement closes the log', async () => {
    const witness = await startWitness()
    closeAfterTest(witness)
    const { url, vkey: key } = witness
    const gateway = await startGateway({ engine, evidence: { witnesses: [{ name: 'w1', url, key, window: ALWAYS }] } })
    const keySet = await gateway.call('GET', '/.well-known/aigw-keys.json')
    witness.trusts = async () => parseKeySet(keySet.body)
    await ask(gateway, 2)
    await makeCheckpoints(gateway)
    await vi.waitFor(() => expect(witness.seen.size).toBe(2), { timeout: 20_000 })
    for (const origin of witness.seen.keys()) witness.seen.set(origin, { size: 90, root: '' })
    await ask(gateway)
    await makeCheckpoints(gateway)
    await vi.waitFor(async () => expect(await listLosses(gateway.app.db)).toHaveLength(2), { timeout: 20_000 })
    await gateway.restart()
    expect(await readiness(gateway)).toMatchObject(degraded('witness_contradicts'))
    const before = await sizesOf(gateway.app.db)
    await ask(gateway)
    expect(Object.keys(await sizesOf(gateway.app.db))).toEqual(Object.keys(before))
    await expectAcknowledgeable(gateway)
    await expectNothingContinues(gateway)
  })

  test('never makes a new key sign entries that an attacker has written without a signature', async () => {
    const { gateway } = await startWithHistory({})
    const { db } = gateway.app
    await db.deleteFrom('evidence_keys').execute()
    await db.deleteFrom('evidence_checkpoints').execute()
    await db.updateTable('evidence_commits').set({ signature: '', kid: '' }).execute()
    await gateway.restart()
    const unsigned = await gateway.app.db.selectFrom('evidence_commits').select('signature').distinct().execute()
    expect(unsigned).toContainEqual({ signature: '' })
  })

  test('in a restored older store closes the chains that are shorter than the notes of the file', async () => {
    const { gateway, sizes } = await startWithHistory()
    await rollBack(gateway.app.db)
    await gateway.restart()
    expect(await readiness(gateway)).toMatchObject(degraded('entries_missing'))
    expect((await lossesOf(gateway)).map(({ chain }) => chain).sort()).toEqual(Object.keys(sizes).sort())
    await expectNothingContinues(gateway)
    await gateway.restart()
    await expectNothingContinues(gateway)
    await expectAcknowledgeable(gateway)
    await expectNothingContinues(gateway)
  })

  test('of a log that continues a closed log is noticed by the checkpoint file', async () => {
    const { gateway } = await startWithHistory()
    await rollBack(gateway.app.db)
    await gateway.restart()
    await ask(gateway)
    await addGroup(gateway, 'later')
    await makeCheckpoints(gateway)
    const successors = (await listLosses(gateway.app.db)).flatMap(({ successor }) => successor ?? [])
    expect(successors).toHaveLength(2)
    // The store is restored from a copy that was made directly after the loss.
    for (const table of ['evidence_entries', 'evidence_checkpoints'] as const)
      await gateway.app.db.deleteFrom(table).where('chain', 'in', successors).execute()
    await gateway.restart()
    expect((await listLosses(gateway.app.db)).map(({ chain }) => chain)).toEqual(expect.arrayContaining(successors))
    await expectNothingContinues(gateway)
    expect(Object.keys(await sizesOf(gateway.app.db)).filter((chain) => successors.includes(chain))).toEqual([])
    await expectAcknowledgeable(gateway)
  })

  test('in a restored older store that has grown again closes the chains that differ from the notes', async () => {
    const { gateway, file, sizes } = await startWithHistory()
    const notes = await readFile(file)
    await rollBack(gateway.app.db)
    await rm(file)
    await gateway.app.db.deleteFrom('evidence_files').execute()
    await gateway.restart()
    await ask(gateway, 6)
    for (const name of ['fifth', 'sixth', 'seventh', 'eighth']) await addGroup(gateway, name)
    const grown = await sizesOf(gateway.app.db)
    for (const [chain, size] of Object.entries(sizes)) expect(grown[chain]).toBeGreaterThanOrEqual(size)
    await writeFile(file, notes)
    await gateway.restart()
    expect(await readiness(gateway)).toMatchObject(degraded('entries_changed'))
    await expectNothingContinues(gateway)
    await expectAcknowledgeable(gateway)
  })

  test('in a truncated chain that kept its checkpoints is noticed without a file', async () => {
    const { gateway } = await startWithHistory({})
    await gateway.app.db.deleteFrom('evidence_entries').where('chain', '<>', 'changes').where('seq', '>=', 3).execute()
    await gateway.restart()
    expect(await readiness(gateway)).toMatchObject(degraded('entries_missing'))
    await expectNothingContinues(gateway)
    await expectAcknowledgeable(gateway)
  })

  test.each(['removed', 'emptied'])('includes a checkpoint file that was %s', async (how) => {
    const { gateway, clock, file } = await startWithHistory()
    await gateway.restart()
    expect(await readiness(gateway)).toMatchObject(READY)
    for (let time = 0; time < 2; time++) {
      clock.advance(1_000)
      if (how === 'removed') await rm(file)
      else await writeFile(file, '')
      await gateway.restart()
      expect(await readiness(gateway)).toMatchObject(degraded('file_missing'))
      await expectAcknowledgeable(gateway)
      // The comparison has written the file again.
      expect(await readFile(file, 'utf8')).toContain('/logs/')
    }
  })

  test.each(['removed', 'emptied'])('under a running daemon includes a checkpoint file that was %s', async (how) => {
    const { gateway, clock, file } = await startWithHistory()
    for (let time = 0; time < 2; time++) {
      clock.advance(1_000)
      if (how === 'removed') await rm(file)
      else await writeFile(file, '')
      await ask(gateway)
      await makeCheckpoints(gateway)
      // The daemon does not create the file again, because that would hide the loss.
      expect(await readFile(file, 'utf8').catch(() => '')).toBe('')
      expect(await readiness(gateway)).toMatchObject(degraded('file_missing'))
      expect((await listLosses(gateway.app.db)).filter(({ acknowledged_at }) => acknowledged_at === null)).toHaveLength(
        1,
      )
      await expectAcknowledgeable(gateway)
      expect(await readFile(file, 'utf8')).toContain('/logs/')
    }
  })

  test.each(['at a start', 'under a running daemon'])(
    '%s includes a checkpoint file that cannot be read',
    async (when) => {
      const { gateway, clock, file } = await startWithHistory()
      const notes = await readFile(file)
      await rm(file)
      await mkdir(file)
      for (let time = 0; time < 2; time++) {
        clock.advance(1_000)
        if (when === 'at a start') await gateway.restart()
        else await makeCheckpoints(gateway)
        expect(await readiness(gateway)).toMatchObject(degraded('file_unreadable'))
        expect((await gateway.call('GET', `${BASE}/status`)).body.status).toBe('degraded')
        await makeCheckpoints(gateway)
        expect(
          (await listLosses(gateway.app.db)).filter(({ acknowledged_at }) => acknowledged_at === null),
        ).toHaveLength(1)
        await acknowledgeAll(gateway)
        expect(await readiness(gateway)).toMatchObject(READY)
        expect((await gateway.call('GET', `${BASE}/status`)).body.status).toBe('operational')
      }
      await rm(file, { recursive: true })
      await writeFile(file, notes)
      await gateway.restart()
      expect(await readiness(gateway)).toMatchObject(READY)
      expect((await gateway.call('GET', `${BASE}/status`)).body.status).toBe('operational')
    },
  )

  test('under a running daemon is noticed with the next checkpoints', async () => {
    const { gateway, clock } = await startWithHistory({})
    await rollBack(gateway.app.db)
    clock.advance(60_000)
    await vi.waitFor(async () => expect(await listLosses(gateway.app.db)).toHaveLength(2))
    clock.advance(EVIDENCE_KEY_CACHE_MS)
    expect(await readiness(gateway)).toMatchObject(degraded('entries_missing'))
    await expectNothingContinues(gateway)
  })
})

test('lost history that one daemon of a PostgreSQL server finds closes the chains of all within two seconds', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'aigw-lost-'))
  const clock = createFakeClock()
  const first = await startGateway({ engine: postgresEngine, clock, evidence: { checkpointFile: fileIn(folder) } })
  await ask(first, 4)
  await addGroup(first, 'first')
  await makeCheckpoints(first)
  await rollBack(first.app.db)
  const second = await startGateway({ beside: first, clock, evidence: { checkpointFile: fileIn(folder) } })
  expect(await readiness(second)).toMatchObject(degraded('entries_missing'))
  clock.advance(EVIDENCE_KEY_CACHE_MS)
  expect(await readiness(first)).toMatchObject(degraded('entries_missing'))
  const before = await sizesOf(first.app.db)
  await ask(first, 2)
  await ask(second, 2)
  await addGroup(first, 'later')
  const after = await sizesOf(first.app.db)
  for (const { chain } of await listLosses(first.app.db)) expect(after[chain ?? '']).toBe(before[chain ?? ''])
  await acknowledgeAll(second)
  clock.advance(EVIDENCE_KEY_CACHE_MS)
  expect(await readiness(first)).toMatchObject(READY)
  await second.close()
  await first.close()
  await rm(folder, { recursive: true })
})
