// The table of docs/evidence.md: who notices which attack on the history of a log. Each row attacks the store of a real
// gateway; each column is a party that has seen the log before the attack.
import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test, vi } from 'vitest'
import type { Db } from '../../src/daemon/platform/db/db.ts'
import { ALWAYS } from '../../src/shared/evidence/cosignature.ts'
import { parseKeySet } from '../../src/shared/evidence/keys.ts'
import { runCli } from '../cli/run-cli.ts'
import { type Gateway, startGateway } from '../harness.ts'
import { closeAfterTest } from '../leftovers.ts'
import { startWitness, type TestWitness } from '../witness.ts'
import { submitAll } from './dishonest-operator.ts'

const DAEMON = 'Daemon at start'
const CLI = 'CLI that remembered'
const WITNESS = 'Witness'
const VERIFIER = 'Offline verifier'

type Attacked = { gateway: Gateway; restart(): Promise<void> }

/** The attacks. The attacker can change the store, but neither the checkpoint file nor what others have kept. */
const ATTACKS: Record<string, (attacked: Attacked) => Promise<unknown>> = {
  'Fork: the last entries are replaced by others, with valid signatures': async ({ gateway, restart }) => {
    await cut(gateway.app.db)
    await restart()
    await grow(gateway, 8)
  },
  'Rollback: an older copy of the store is restored': ({ gateway }) => cut(gateway.app.db),
  'Truncation: the last entries of one chain are deleted, with their checkpoints': async ({ gateway }) => {
    const { db } = gateway.app
    await db.deleteFrom('evidence_checkpoints').where('chain', '<>', 'changes').execute()
    await db.deleteFrom('evidence_cosignatures').where('chain', '<>', 'changes').execute()
    await db.deleteFrom('evidence_nodes').execute()
    await db.deleteFrom('evidence_entries').where('chain', '<>', 'changes').where('seq', '>=', 3).execute()
  },
  'Key loss: the signing keys are deleted': ({ gateway }) => gateway.app.db.deleteFrom('evidence_keys').execute(),
  'Key loss with all signatures: the signing keys, the commits and the checkpoints are deleted': async ({
    gateway,
  }) => {
    for (const table of ['keys', 'commits', 'checkpoints', 'cosignatures', 'nodes'] as const)
      await gateway.app.db.deleteFrom(`evidence_${table}`).execute()
  },
}

/** Restores the state after three entries of each chain. */
async function cut(db: Db): Promise<void> {
  await db.deleteFrom('evidence_checkpoints').execute()
  await db.deleteFrom('evidence_cosignatures').execute()
  await db.deleteFrom('evidence_nodes').execute()
  await db.deleteFrom('evidence_files').execute()
  await db.deleteFrom('evidence_entries').where('seq', '>=', 3).execute()
}

let groups = 0
async function grow(gateway: Gateway, count: number): Promise<void> {
  for (let time = 0; time < count; time++) {
    expect((await gateway.chat({ prompt: 'Hello' })).status).toBe(200)
    const name = `group-${++groups}`
    expect((await gateway.call('POST', '/api/external/groups', { name, description: name })).status).toBe(201)
  }
}

type Scene = {
  gateway: Gateway
  audit(...words: string[]): Promise<{ exitCode: number; stderr: string }>
  /** A checkpoint file and a key file that were stored elsewhere before the attack. */
  kept: string
  keys: string
  /** A witness that cosigned a checkpoint of each log before the attack. */
  witness: TestWitness
  /** Restarts the daemon with its checkpoint file. */
  restartWithFile(): Promise<void>
  /** A new, empty folder. */
  newFolder(): string
}

/**
 * Returns whether the party notices the attack. The daemon comes last, because the other parties must notice the attack
 * of a gateway that does not report it.
 */
const OBSERVERS: Record<string, (scene: Scene) => Promise<boolean>> = {
  async [CLI]({ audit }) {
    const { exitCode, stderr } = await audit('verify', '--json')
    // Without its key, the gateway's latest checkpoint is invalid before it can be compared with the remembered one.
    return exitCode === 10 && /"code":"(?:LOG_|CHECKPOINT_INVALID)/.test(stderr)
  },
  async [VERIFIER]({ audit, kept, keys, newFolder }) {
    const folder = newFolder()
    await runExport(audit, folder)
    // An unsigned export has another exit code than a signed export that contradicts the checkpoint.
    return (await audit('verify', folder, '--checkpoint', kept, '--keys', keys)).exitCode !== 0
  },
  // The operator has two ways: to submit checkpoints without the daemon, and to let the daemon continue.
  async [WITNESS]({ gateway, audit, witness }) {
    const cosigned = new Map(witness.seen)
    const submitted = await submitAll(gateway.app.db, witness)
    expect(submitted.size).toBe(cosigned.size)
    const refused = [...submitted].filter(([, statuses]) => !statuses.includes(200)).map(([chain]) => chain)
    for (const [origin, { size }] of cosigned) expect(witness.seen.get(origin)?.size).toBeGreaterThanOrEqual(size)
    await audit('checkpoint')
    const reported = () =>
      gateway.log.filter(({ message }) => /^a witness (has cosigned .*contradicts|refuses)/.test(message))
    await vi.waitFor(() => expect(reported()).not.toEqual([]), { timeout: 20_000 })
    return refused.length > 0
  },
  async [DAEMON]({ gateway, restartWithFile }) {
    await restartWithFile()
    const { status, body } = await gateway.call('GET', '/readyz', undefined, { key: null })
    expect(status).toBe(200)
    return body.status === 'degraded'
  },
}

async function runExport(audit: Scene['audit'], folder: string): Promise<void> {
  const { exitCode, stderr } = await audit('export', folder, '--even-violated')
  expect([0, 10], stderr).toContain(exitCode)
}

const found = new Map<string, Record<string, boolean>>()
const folders: string[] = []
afterAll(async () => {
  for (const folder of folders) await rm(folder, { recursive: true })
})

/** Restarts the gateway. Without the file, it is the gateway of an operator who does not want to notice. */
async function restart(gateway: Gateway, home: string, checkpointFile: string | undefined): Promise<void> {
  const remembered = (url: string) => join(home, 'aigw', 'checkpoints', encodeURIComponent(url))
  const before = remembered(gateway.url)
  Object.assign(gateway.config.evidence ?? {}, { checkpointFile })
  await gateway.restart()
  // The port changes with a restart, and the CLI remembers checkpoints by the gateway's address.
  if (before !== remembered(gateway.url)) await rename(before, remembered(gateway.url))
}

test.each(Object.entries(ATTACKS))('%s', async (attack, run) => {
  const home = await mkdtemp(join(tmpdir(), 'aigw-table-'))
  folders.push(home)
  const file = join(home, 'checkpoints')
  const witness = await startWitness()
  closeAfterTest(witness)
  const { url, vkey: key } = witness
  const gateway = await startGateway({
    evidence: { checkpointFile: file, witnesses: [{ name: 'w1', url, key, window: ALWAYS }] },
  })
  const audit: Scene['audit'] = (...words) =>
    runCli(['audit', ...words], {
      env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: gateway.adminKey, XDG_STATE_HOME: home, NO_COLOR: '1' },
    })
  const keySet = await gateway.call('GET', '/.well-known/aigw-keys.json')
  witness.trusts = async () => parseKeySet(keySet.body)
  await grow(gateway, 6)
  const [kept, keys] = [join(home, 'kept.notes'), join(home, 'keys.json')]
  expect(await audit('checkpoint', '--out', kept)).toMatchObject({ exitCode: 0 })
  await writeFile(keys, keySet.text)
  const cosignatures = () => gateway.app.db.selectFrom('evidence_cosignatures').select('chain').execute()
  await vi.waitFor(async () => expect(await cosignatures()).toHaveLength(2), { timeout: 20_000 })

  await run({ gateway, restart: () => restart(gateway, home, undefined) })
  await restart(gateway, home, undefined)
  let exports = 0
  const restartWithFile = () => restart(gateway, home, file)
  const scene: Scene = {
    gateway,
    audit,
    kept,
    keys,
    witness,
    restartWithFile,
    newFolder: () => join(home, `export-${++exports}`),
  }
  const row: Record<string, boolean> = {}
  for (const [name, notices] of Object.entries(OBSERVERS)) row[name] = await notices(scene)
  found.set(attack, row)
  expect(Object.values(row)).toContain(true)
})

test('docs/evidence.md shows who notices which attack', async () => {
  const page = await readFile(new URL('../../docs/evidence.md', import.meta.url), 'utf8')
  const lines = page.split('\n')
  const start = lines.findIndex((line) => line.startsWith('| Attack |'))
  const cells = (line = '') =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim())
  const header = cells(lines[start])
  for (const [attack, row] of found) {
    const line = lines.find((candidate) => cells(candidate)[0] === attack)
    const shown = cells(line)
    for (const [observer, notices] of Object.entries(row)) {
      expect([attack, observer, shown[header.indexOf(observer)]]).toEqual([attack, observer, notices ? 'yes' : 'no'])
    }
  }
  expect(found.size).toBe(Object.keys(ATTACKS).length)
})
