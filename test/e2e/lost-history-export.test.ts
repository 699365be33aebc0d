import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import type { Db } from '../../src/daemon/platform/db/db.ts'
import { listLosses } from '../../src/daemon/records/evidence/losses.ts'
import { toKeySet } from '../../src/shared/evidence/keys.ts'
import { runCli } from '../cli/run-cli.ts'
import { startGateway } from '../harness.ts'
import { exportParts, writeExport } from '../shared/evidence/export-folder.ts'
import { testSigner } from '../shared/evidence/signer.ts'
import { storedChain } from '../shared/evidence/stored-chain.ts'

const VERIFIERS = fileURLToPath(new URL('../../docs/verifiers/', import.meta.url))
type Result = { exitCode: number; output: string }
const run = (program: string, ...args: string[]) =>
  new Promise<Result>((resolve) =>
    execFile(program, args, (error, output) => resolve({ exitCode: error ? Number(error.code) : 0, output })),
  )

/** The results of the three verifiers of an export. */
async function resultsOf(folder: string, ...options: string[]): Promise<Result[]> {
  const args = [folder, ...options]
  const { exitCode, stderr } = await runCli(['audit', 'verify', ...args], { env: { NO_COLOR: '1' } })
  return [
    { exitCode, output: stderr },
    await run('node', join(VERIFIERS, 'verify.mjs'), ...args),
    await run('python3', '-B', join(VERIFIERS, 'verify_export.py'), ...args),
  ]
}
const verdictsOf = async (folder: string, keys: string): Promise<number[]> =>
  (await resultsOf(folder, '--keys', keys)).map(({ exitCode }) => exitCode)

test('every verifier treats the logs that continue closed logs as logs of changes and of requests', async () => {
  const home = await mkdtemp(join(tmpdir(), 'aigw-lost-export-'))
  onTestFinished(() => rm(home, { recursive: true }))
  const gateway = await startGateway({ evidence: { checkpointFile: join(home, 'checkpoints') } })
  const { db } = gateway.app
  const aigw = (...words: string[]) =>
    runCli(['audit', ...words], {
      env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: gateway.adminKey, XDG_STATE_HOME: home, AIGW_NO_HISTORY: '1' },
    })
  let groups = 0
  async function grow(): Promise<void> {
    for (let time = 0; time < 3; time++) {
      expect((await gateway.chat({ prompt: 'Hello' })).status).toBe(200)
      const name = `group-${++groups}`
      expect((await gateway.call('POST', '/api/external/groups', { name, description: name })).status).toBe(201)
    }
  }
  const keys = join(home, 'keys.json')
  let exports = 0
  async function verdicts(): Promise<number[]> {
    const folder = join(home, `export-${++exports}`)
    const made = await aigw('export', folder)
    expect(made.exitCode, made.stderr).toBe(0)
    return verdictsOf(folder, keys)
  }

  await grow()
  expect((await aigw('checkpoint')).exitCode).toBe(0)
  for (const table of ['evidence_checkpoints', 'evidence_nodes', 'evidence_files'] as const)
    await db.deleteFrom(table).execute()
  await db.deleteFrom('evidence_entries').where('seq', '>=', 2).execute()
  await gateway.restart()
  await grow()
  await writeFile(keys, (await gateway.call('GET', '/.well-known/aigw-keys.json')).text)
  const { body } = await gateway.call('GET', '/api/external/transparency/chains')
  const chains: string[] = body.chains.map(({ chain }: { chain: string }) => chain)
  const nextOf = (pattern: RegExp) => chains.find((chain) => pattern.test(chain)) ?? expect.unreachable(`${chains}`)
  const [changes, requests] = [nextOf(/^changes-[0-9a-f]{4}$/), nextOf(/^requests-[0-9a-f]{12}-[0-9a-f]{4}$/)]
  expect(chains).toHaveLength(4)
  expect(await verdicts()).toEqual([0, 0, 0])

  // Retention may remove the payload of a request.
  await gateway.app.db
    .updateTable('evidence_entries')
    .set({ payload: null })
    .where('chain', '=', requests)
    .where('seq', '=', 0)
    .execute()
  expect(await verdicts()).toEqual([0, 0, 0])
  // The payload of a change is never removed, so the gateway does not export a log without it.
  await gateway.app.db.updateTable('evidence_entries').set({ payload: null }).where('chain', '=', changes).execute()
  const refused = await aigw('export', join(home, 'refused'))
  expect([refused.exitCode, refused.stderr]).toEqual([10, expect.stringContaining('its payload is missing')])
})

const LOSSES: [string, string, (db: Db) => Promise<unknown>, number][] = [
  [
    'entries',
    'entries_missing',
    async (db) => db.deleteFrom('evidence_entries').where('chain', '<>', 'changes').where('seq', '>=', 2).execute(),
    1,
  ],
  [
    'all entries of a chain',
    'entries_missing',
    async (db) => db.deleteFrom('evidence_entries').where('chain', '<>', 'changes').execute(),
    1,
  ],
  ['the signing keys', 'key_missing', async (db) => db.deleteFrom('evidence_keys').execute(), 2],
]
test.each(LOSSES)(
  'after a loss of %s is acknowledged, an export is signed and names it',
  async (_, cause, lose, count) => {
    const home = await mkdtemp(join(tmpdir(), 'aigw-lost-export-'))
    onTestFinished(() => rm(home, { recursive: true }))
    const gateway = await startGateway()
    const aigw = (...words: string[]) =>
      runCli(['audit', ...words], {
        env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: gateway.adminKey, XDG_STATE_HOME: home, AIGW_NO_HISTORY: '1' },
      })
    const use = async (name: string) => {
      for (let time = 0; time < 3; time++) expect((await gateway.chat({ prompt: 'Hello' })).status).toBe(200)
      const { status } = await gateway.call('POST', '/api/external/groups', { name, description: name })
      expect(status).toBe(201)
    }
    await use('before')
    expect((await aigw('checkpoint')).exitCode).toBe(0)
    await lose(gateway.app.db)
    await gateway.restart()
    await use('after')
    const keys = join(home, 'keys.json')
    await writeFile(keys, (await gateway.call('GET', '/.well-known/aigw-keys.json')).text)
    const losses = (await listLosses(gateway.app.db)).filter(({ chain }) => chain !== null)
    expect(losses.map((loss) => loss.cause)).toEqual(Array.from({ length: count }, () => cause))
    expect((await aigw('export', join(home, 'early'))).exitCode).toBe(10)

    expect((await aigw('losses', '--acknowledge', '--yes')).exitCode).toBe(0)
    const folder = join(home, 'export')
    const made = await aigw('export', folder)
    expect(made.exitCode, made.stderr).toBe(0)
    const { statement, manifest } = Object.fromEntries(
      await Promise.all(
        ['statement', 'manifest'].map(async (name) => [
          name,
          JSON.parse(await readFile(join(folder, `${name}.json`), 'utf8')),
        ]),
      ),
    )
    const exported = manifest.chains.map(({ chain }: { chain: string }) => chain)
    for (const { chain, successor } of losses) {
      expect(exported).not.toContain(chain)
      expect(exported).toContain(successor)
      expect(statement.losses).toContainEqual(
        expect.objectContaining({ chain, cause, successor, acknowledged_at: expect.any(String) }),
      )
    }
    expect(statement.losses).toHaveLength(count)
    for (const options of [['--keys', keys], []]) {
      for (const { exitCode, output } of await resultsOf(folder, ...options)) {
        expect([exitCode, output]).toEqual([options.length > 0 ? 0 : 11, expect.any(String)])
        for (const { chain } of losses)
          expect(output).toMatch(
            new RegExp(`the log ${chain} has lost history \\(${cause}, acknowledged at .*contains 0 of`),
          )
      }
    }
    for (const { chain } of losses) expect(made.stderr).toContain(`the log ${chain} has lost history`)
  },
)

test('no verifier accepts that a payload is missing in a log that continues the log of changes', async () => {
  const home = await mkdtemp(join(tmpdir(), 'aigw-lost-export-'))
  onTestFinished(() => rm(home, { recursive: true }))
  const signer = testSigner('aigw-test')
  const keys = join(home, 'keys.json')
  await writeFile(keys, JSON.stringify(toKeySet([signer.published])))
  for (const [chain, codes] of [
    ['changes-1f0a', [10, 1, 1]],
    ['requests-0123456789ab-1f0a', [0, 0, 0]],
  ] as const) {
    const stored = storedChain(3, 3, signer, chain)
    const rows = stored.rows.map((row) => (row.seq === 1 ? { ...row, payload: null } : row))
    const folder = join(home, chain)
    await writeExport(folder, exportParts([{ ...stored, rows }], signer), signer)
    expect([chain, await verdictsOf(folder, keys)]).toEqual([chain, codes])
  }
})
