import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { toKeySet } from '../../../src/shared/evidence/keys.ts'
import { chainOrigin } from '../../../src/shared/evidence/note.ts'
import { testCommit, testNote, testSigner } from '../../shared/evidence/signer.ts'
import { checkpointOf, nextRow, type StoredChain, storedChain } from '../../shared/evidence/stored-chain.ts'
import { CHAIN, noteOf, SIGNER, serveEvidence, TENANT } from '../evidence-routes.ts'
import { type FakeGateway, json, KEY, startFakeGateway, structuredError } from '../fake-gateway.ts'
import { runCli } from '../run-cli.ts'

const TRANSPARENCY = '/api/external/transparency'
/** A log after 5, 7 and 12 entries. */
const LOG = storedChain(12, 3, SIGNER)
const first = (size: number) => ({ ...LOG, rows: LOG.rows.slice(0, size) })
/** The same log with other entries. */
function forkOf(size: number): StoredChain {
  const rows: StoredChain['rows'] = []
  const commits: StoredChain['commits'] = new Map()
  for (let at = 0; at < size; at++) {
    const row = nextRow(rows.at(-1), { type: 'api_access', text: 'forked' }, `fork-${at}`, 0)
    rows.push(row)
    commits.set(`fork-${at}`, testCommit(`fork-${at}`, [row.entry_hash], SIGNER))
  }
  return { rows, commits }
}
const FORK = forkOf(12)

let gateway: FakeGateway
let folder: string
let env: Record<string, string>
beforeEach(async () => {
  gateway = await startFakeGateway()
  folder = await mkdtemp(join(tmpdir(), 'aigw-remembered-'))
  env = { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: KEY, NO_COLOR: '1', XDG_STATE_HOME: folder }
})
afterEach(async () => {
  await gateway.close()
  await rm(folder, { recursive: true })
})

const audit = (words: string[], more: Record<string, string> = {}) =>
  runCli(['audit', ...words], { env: { ...env, ...more } })
const codeOf = (stderr: string): string => JSON.parse(stderr.trim().split('\n').at(-1) ?? '').code
async function save(name: string, content: string): Promise<string> {
  await writeFile(join(folder, name), content)
  return join(folder, name)
}
async function remembered(): Promise<string> {
  const path = join(folder, 'aigw', 'checkpoints', encodeURIComponent(gateway.url))
  const [name = ''] = (await readdir(path, { recursive: true })).filter((found) => found.endsWith('.json'))
  return JSON.parse(await readFile(join(path, name), 'utf8')).note
}

describe('the last checkpoint of a log', () => {
  test.each([['verify'], ['checkpoint'], ['export']])(
    'is remembered by audit %s, and must be extended next time',
    async (verb) => {
      const words = () => (verb === 'export' ? [verb, join(folder, `export-${Math.random()}`)] : [verb])
      for (const size of [5, 5, 7, 12]) {
        serveEvidence(gateway, first(size))
        const { exitCode, stderr } = await audit(words())
        expect(exitCode, stderr).toBe(0)
        expect(await remembered()).toBe(noteOf(LOG, size))
      }
      for (const [chain, code] of [
        [first(7), 'LOG_ROLLED_BACK'],
        [forkOf(13), 'LOG_FORKED'],
        [FORK, 'LOG_FORKED'],
      ] as const) {
        serveEvidence(gateway, chain)
        const { exitCode, stderr } = await audit([...words(), '--json'])
        expect([exitCode, codeOf(stderr)]).toEqual([10, code])
        expect(await remembered()).toBe(noteOf(LOG, 12))
      }
    },
  )

  test('is required by a gateway that cannot or does not prove that the log grew', async () => {
    serveEvidence(gateway, first(5))
    await audit(['verify'])
    serveEvidence(gateway, first(7))
    const route = `GET ${TRANSPARENCY}/proofs/consistency`
    for (const answer of [
      json(200, { path: [] }),
      json(200, {}),
      structuredError(409, 'EVIDENCE_MISMATCH', 'Entries are missing.'),
    ]) {
      gateway.on(route, answer)
      const { exitCode, stderr } = await audit(['verify', '--json'])
      expect([exitCode, codeOf(stderr)]).toEqual([10, 'LOG_FORKED'])
    }
    expect(await remembered()).toBe(noteOf(LOG, 5))
  })

  test('of a removed log, or by a key that is no longer published, is reported', async () => {
    serveEvidence(gateway, first(5))
    await audit(['verify'])
    gateway.on(`GET ${TRANSPARENCY}/checkpoints`, json(200, { checkpoints: [] }))
    gateway.on(`GET ${TRANSPARENCY}/chains`, json(200, { tenant_id: TENANT, chains: [] }))
    const gone = await audit(['verify', '--json'])
    expect([gone.exitCode, codeOf(gone.stderr)]).toEqual([10, 'LOG_MISSING'])
    gateway.on('GET /.well-known/aigw-keys.json', json(200, toKeySet([testSigner('aigw-test').published])))
    const replaced = await audit(['verify', '--json'])
    expect([replaced.exitCode, codeOf(replaced.stderr)]).toEqual([10, 'LOG_KEY_MISSING'])
  })

  test('of a log without new entries is not missing in the answer to `audit checkpoint`', async () => {
    serveEvidence(gateway, first(7))
    expect((await audit(['verify'])).exitCode).toBe(0)
    gateway.on(`POST ${TRANSPARENCY}/checkpoints`, json(200, { checkpoints: [] }))
    expect(await audit(['checkpoint', '--json'])).toMatchObject({ exitCode: 0 })
  })

  test('is found by the URL, the profile and the key, so another stated tenant or log name does not escape it', async () => {
    serveEvidence(gateway, first(7))
    expect((await audit(['verify'])).exitCode).toBe(0)
    // The gateway rolls the log back, and states another tenant: the log has another id, without a remembered checkpoint.
    const renamed = `requests-${'f'.repeat(12)}`
    const origin = chainOrigin(SIGNER.published.name, 'another', renamed)
    const { root } = checkpointOf(LOG.rows.slice(0, 3))
    const note = testNote(origin, 3, root, SIGNER)
    gateway.on(
      `GET ${TRANSPARENCY}/checkpoints`,
      json(200, { checkpoints: [{ chain: renamed, tree_size: 3, root: '', kid: '', note, created_at: '' }] }),
    )
    gateway.on(
      `GET ${TRANSPARENCY}/chains`,
      json(200, {
        tenant_id: 'another',
        chains: [{ chain: renamed, size: 3, head: '0'.repeat(64), checkpoint: null }],
      }),
    )
    for (const verb of ['verify', 'checkpoint'] as const) {
      gateway.on(
        `POST ${TRANSPARENCY}/checkpoints`,
        json(200, { checkpoints: [{ chain: renamed, tree_size: 3, root: '', kid: '', note, created_at: '' }] }),
      )
      const { exitCode, stderr } = await audit([verb, '--json'])
      expect([exitCode, codeOf(stderr)]).toEqual([10, 'LOG_MISSING'])
      expect(stderr).toContain(`shows new logs: ${renamed}`)
    }
    expect(await remembered()).toBe(noteOf(LOG, 7))
  })

  test('of another key must be extended too, but need not be shown: it may belong to another tenant', async () => {
    serveEvidence(gateway, first(7))
    expect((await audit(['verify'])).exitCode).toBe(0)
    const other = { AIGW_API_KEY: `${KEY}2` }
    serveEvidence(gateway, first(5))
    const rolledBack = await audit(['verify', '--json'], other)
    expect([rolledBack.exitCode, codeOf(rolledBack.stderr)]).toEqual([10, 'LOG_ROLLED_BACK'])
    gateway.on(`GET ${TRANSPARENCY}/checkpoints`, json(200, { checkpoints: [] }))
    gateway.on(`GET ${TRANSPARENCY}/chains`, json(200, { tenant_id: 'another', chains: [] }))
    expect((await audit(['verify'], other)).exitCode).toBe(0)
    expect((await audit(['verify'])).exitCode).toBe(10)
  })

  test('can be forgotten, and is not remembered with AIGW_NO_HISTORY', async () => {
    serveEvidence(gateway, first(7))
    await audit(['verify'], { AIGW_NO_HISTORY: '1' })
    expect(await readdir(folder)).toEqual([])
    await audit(['verify'])
    serveEvidence(gateway, first(5))
    expect((await audit(['verify'])).exitCode).toBe(10)
    expect((await audit(['verify'], { AIGW_NO_HISTORY: '1' })).exitCode).toBe(0)
    expect((await audit(['forget'])).exitCode).toBe(2)
    expect((await audit(['forget', '--dry-run'])).stderr).toContain('Would forget 1 checkpoints')
    expect(await audit(['forget', '--yes'])).toMatchObject({
      exitCode: 0,
      stderr: expect.stringContaining('Forgot 1 checkpoints'),
    })
    expect((await audit(['verify'])).exitCode).toBe(0)
    expect(await remembered()).toBe(noteOf(LOG, 5))
  })
})

describe('audit consistency', () => {
  const keys = () => save('keys.json', JSON.stringify(toKeySet([SIGNER.published])))
  const notes = (name: string, chain: StoredChain, size: number) => save(name, noteOf(chain, size))
  const proof = async (from: number, to: number) => {
    serveEvidence(gateway, LOG)
    const path = `${TRANSPARENCY}/proofs/consistency?chain=${CHAIN}&from=${from}&to=${to}`
    const { stdout } = await runCli(['api', 'GET', path], { env })
    return save(`proof-${from}-${to}.json`, stdout)
  }
  /** Runs without a gateway. */
  const offline = async (old: string, later: string, ...words: string[]) => {
    const args = ['consistency', old, later, '--keys', await keys(), '--json', ...words]
    return audit(args, { AIGW_BASE_URL: 'http://127.0.0.1:1' })
  }

  test('accepts a proof, an equal checkpoint, and an export that contains the earlier entries', async () => {
    const [old, later] = [await notes('old', LOG, 5), await notes('new', LOG, 12)]
    const proven = await offline(old, later, '--proof', await proof(5, 12))
    expect(JSON.parse(proven.stdout)).toMatchObject([{ from: 5, to: 12, consistent: true, problem: null }])
    expect(proven.exitCode).toBe(0)
    expect((await offline(old, old)).exitCode).toBe(0)
    for (const size of [5, 12]) {
      serveEvidence(gateway, first(size))
      expect((await audit(['export', join(folder, `export-${size}`)])).exitCode).toBe(0)
    }
    const [early, late] = [join(folder, 'export-5'), join(folder, 'export-12')]
    for (const [one, other] of [
      [old, late],
      [early, late],
      [early, old],
    ] as const) {
      const { exitCode, stderr } = await offline(one, other)
      expect([exitCode, stderr]).toEqual([0, expect.any(String)])
    }
    expect(await offline(late, early)).toMatchObject({ exitCode: 10 })
    expect(await offline(await notes('forked', FORK, 5), late)).toMatchObject({ exitCode: 10 })
  })

  test('exits 10 if a larger checkpoint has no proof, even beside a checkpoint that is proven or equal', async () => {
    const old = await notes('old', LOG, 5)
    const mixed = await save('mixed', `${noteOf(LOG, 5)}\n${noteOf(LOG, 8)}\n${noteOf(FORK, 12)}`)
    const { exitCode, stdout } = await offline(old, mixed, '--proof', await proof(5, 8))
    expect([exitCode, stdout]).toEqual([10, expect.stringContaining('a proof from 5 to 12 is missing')])
  })

  test('exits 11 if only the keys of an export confirm it', async () => {
    const old = await notes('old', LOG, 5)
    serveEvidence(gateway, first(12))
    const late = join(folder, 'export-own-keys')
    expect((await audit(['export', late])).exitCode).toBe(0)
    expect(await audit(['consistency', old, late, '--json'], { AIGW_BASE_URL: gateway.url })).toMatchObject({
      exitCode: 11,
    })
  })

  test.each([
    ['a rollback', 12, 5, LOG, 'it was rolled back'],
    ['a fork of the same size', 5, 5, FORK, 'it was forked'],
    ['a fork with a proof of another log', 5, 12, FORK, 'it was forked: the proof'],
  ])('exits 10 for %s', async (_what, from, to, chain, problem) => {
    const words = from < to ? ['--proof', await proof(from, to)] : []
    const { exitCode, stdout } = await offline(await notes('old', LOG, from), await notes('new', chain, to), ...words)
    expect(exitCode).toBe(10)
    expect(JSON.parse(stdout)).toMatchObject([{ consistent: false, problem: expect.stringContaining(problem) }])
  })

  test('requires a proof, a log in both files, and readable files', async () => {
    const [old, later] = [await notes('old', LOG, 5), await notes('new', LOG, 12)]
    expect(JSON.parse((await offline(old, later)).stdout)).toMatchObject([
      { consistent: false, problem: 'a proof from 5 to 12 is missing; give it with --proof' },
    ])
    expect((await offline(old, join(folder, 'absent'))).exitCode).toBe(2)
    expect((await offline(old, later, '--proof', old)).exitCode).toBe(2)
  })
})

describe('audit losses', () => {
  const LOSS = {
    ...{ id: 'key:a', cause: 'key_missing', tenant_id: null, chain: null, successor: null },
    ...{ detail: 'the key a is missing', found_at: '2026-01-01T00:00:00.000Z', acknowledged_at: null },
  }

  test('lists losses, and acknowledges the open ones after a confirmation', async () => {
    const done = { ...LOSS, id: 'store', acknowledged_at: LOSS.found_at }
    gateway.on(`GET ${TRANSPARENCY}/losses`, json(200, { losses: [done, LOSS] }))
    const acknowledged = { ...LOSS, acknowledged_at: '2026-01-02T00:00:00.000Z' }
    gateway.on(
      `POST ${TRANSPARENCY}/losses/key:a/acknowledge`,
      json(200, { success: true, message: '', loss: acknowledged }),
    )
    gateway.on(
      `POST ${TRANSPARENCY}/losses/key%3Aa/acknowledge`,
      json(200, { success: true, message: '', loss: acknowledged }),
    )
    expect(JSON.parse((await audit(['losses', '--json'])).stdout)).toEqual([done, LOSS])
    expect((await audit(['losses', '--reason', 'moved'])).exitCode).toBe(2)
    const refused = await audit(['losses', '--acknowledge'])
    expect([refused.exitCode, refused.stderr]).toEqual([2, expect.stringContaining('the key a is missing')])
    expect((await audit(['losses', '--acknowledge', '--dry-run'])).stderr).toContain('Would acknowledge 1 losses')
    const { exitCode, stdout } = await audit(['losses', '--acknowledge', '--reason', 'moved', '--yes', '--json'])
    expect([exitCode, JSON.parse(stdout)]).toEqual([0, [acknowledged]])
    expect(gateway.requests.at(-1)?.json).toEqual({ reason: 'moved' })
  })

  test('without a loss prints that none is known', async () => {
    gateway.on(`GET ${TRANSPARENCY}/losses`, json(200, { losses: [] }))
    expect(await audit(['losses', '--acknowledge'])).toMatchObject({ exitCode: 0 })
  })
})
