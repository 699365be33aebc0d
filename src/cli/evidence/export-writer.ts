/** Writes an export of the log. */
import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { z } from 'zod'
import { exportRoot } from '../../shared/evidence/export-root.ts'
import { type ExportStatement, isStatement } from '../../shared/evidence/export-statement.ts'
import type { PublishedKey } from '../../shared/evidence/keys.ts'
import { parseCheckpoint } from '../../shared/evidence/note.ts'
import { isoTime } from '../../shared/time.ts'
import type { SignExportResponse } from '../../shared/wire/evidence.ts'
import type { CliContext } from '../context.ts'
import { CliError, EXIT } from '../errors.ts'
import type { CheckedChain, EvidenceSource } from './chains.ts'
import { CSV_HEAD, toLogLine } from './csv.ts'
import { openGateway, TRANSPARENCY } from './gateway-source.ts'
import { HashedFile } from './hashed-file.ts'
import { fetchKeys, type TrustedKeys } from './key-set.ts'
import {
  COVERED_FILES,
  type FileSum,
  MANIFEST_VERSION,
  type Manifest,
  signatureProblem,
  VIOLATIONS_FILE,
} from './manifest.ts'
import { compareWithMemory, openMemory } from './remembered.ts'
import { parseJson, toCommitOfExport } from './shapes.ts'
import { ExportCounts, statementProblem } from './statement.ts'
import { checkEvidence, toRow, violationsOf } from './verification.ts'

const VERIFIER = fileURLToPath(new URL('../../../docs/verifiers/verify.mjs', import.meta.url))

const README = `This directory is evidence of an aigw gateway: the log of one tenant, and its proofs.

  data.ndjson         every entry, one per line: chain by chain, from the first entry on
  data.csv            the same for a spreadsheet; its details are the entry
  commits.ndjson      the signatures of the entries, in the order of data.ndjson
  checkpoints.ndjson  signed checkpoints of the chains
  keys.json           the public keys, including retired ones
  manifest.json       the contents of this directory: chains, sizes, hashes
  statement.json      the gateway's own counts: entries, expunged payloads, checkpoints; logs that have lost history
  manifest.sig        the gateway's signature over statement.json, which contains the hash of manifest.json
  verify.mjs          verifies all of it; needs only Node.js 20.19 or later

To verify it with the gateway's public keys from another source:

  node verify.mjs --keys aigw-keys.json

Without --keys, the keys of this directory are used. Anyone can make a directory that is consistent with its own keys, so
the exit code is then 11 instead of 0.

This copy of verify.mjs is only as trustworthy as the sender of the directory. To be independent of the sender, take verify.mjs
from the aigw project (docs/verifiers), and name the directory:

  node your/own/verify.mjs this/directory --keys aigw-keys.json
`

const VIOLATED_README = `This directory is the log of one tenant of an aigw gateway, unchanged. The log is VIOLATED: an entry was changed, removed or
added after it was signed. This directory is not signed, and no verifier accepts it.

  violations.json     the violations, chain by chain, and the SHA-256 of the other files
  data.ndjson         every entry as it is now, one per line
  data.csv            the same for a spreadsheet; its details are the entry
  commits.ndjson      the signatures of the entries
  checkpoints.ndjson  the gateway's checkpoints of the chains
  keys.json           the public keys, including retired ones
`

/**
 * The manifest of a signed export, and the statement of the gateway. If the log is invalid, the export is unsigned, and the result contains the first
 * violation instead of the manifest.
 */
export type Written = { manifest: Manifest; statement: ExportStatement } | { violation: CliError }

/**
 * Writes the log of the tenant into a new folder and verifies each entry. Then requests the gateway's signature for the
 * manifest. Throws an error with exit code 10 if the log is invalid. With `evenViolated`, also writes an invalid log,
 * but without manifest and signature.
 */
export async function writeExport(
  context: CliContext,
  folder: string,
  { evenViolated }: { evenViolated: boolean },
): Promise<Written> {
  const memory = await openMemory(context)
  const whole = await openGateway(context)
  const trusted = await fetchKeys(context)
  const source = evenViolated ? whole : await withoutLost(context, whole, trusted)
  const { latest: current = [] } = source
  if (!evenViolated) await compareWithMemory(context, memory, { trusted, current })
  const files = new Map<string, HashedFile>()
  try {
    for (const name of COVERED_FILES) files.set(name, await HashedFile.create(folder, name))
    const add = async (name: (typeof COVERED_FILES)[number], text: string) => files.get(name)?.add(text)
    await add('data.csv', CSV_HEAD)
    let commitId: string | undefined
    const counts = new ExportCounts()
    const sizes = new Map(source.heads.map(({ chain, size }) => [chain, size]))
    const violations: CliError[] = []
    const checked = await checkEvidence(context, source, {
      trusted,
      onBroken: evenViolated ? (problem) => violations.push(problem) : undefined,
      async onCheckpoint(checkpoint) {
        await add('checkpoints.ndjson', `${JSON.stringify(checkpoint)}\n`)
        const { chain, note } = checkpoint
        const verified = checkpointIn(note)
        if (verified) counts.addCheckpoint(chain, sizes.get(chain) ?? 0, verified)
      },
      async onRow({ row, commit }) {
        await add('data.ndjson', `${JSON.stringify(row)}\n`)
        await add('data.csv', toLogLine(row))
        counts.addRow(row)
        if (row.commit_id !== commitId && commit)
          await add('commits.ndjson', `${JSON.stringify(toCommitOfExport(commit))}\n`)
        commitId = row.commit_id
      },
    })
    const { keys, raw } = trusted
    violations.push(...violationsOf(checked))
    const [violation] = violations
    if (violation !== undefined) {
      if (!evenViolated) throw violation
      await add('README.txt', VIOLATED_README)
      await add('keys.json', raw.toString())
      await writeViolations(folder, {
        created_at: isoTime(context.io.clock.now()),
        tenant_id: source.tenantId,
        problems: violations.map(({ message }) => message),
        chains: checked.map(toRow),
        files: (await endAll(files)).filter(({ name }) => name !== 'verify.mjs'),
      })
      return { violation }
    }
    await add('README.txt', README)
    await add('verify.mjs', readFileSync(VERIFIER, 'utf8'))
    const signing = keys.find(({ retiredAt }) => retiredAt === null)
    if (signing === undefined) throw new CliError(EXIT.error, 'the gateway publishes no active signing key')
    await add('keys.json', raw.toString())
    const sums = await endAll(files)
    const manifest = toManifest(source.tenantId, checked, sums, { kid: signing.kid, now: context.io.clock.now() })
    return { manifest, statement: await writeSigned(context, folder, { manifest, keys, counts }) }
  } finally {
    for (const file of files.values()) await file.close()
  }
}

/**
 * Leaves out the chains that can no longer be verified after a loss that an operator has acknowledged. The gateway lists
 * these chains in its statement.
 */
async function withoutLost(context: CliContext, source: EvidenceSource, trusted: TrustedKeys): Promise<EvidenceSource> {
  const left = new Set<string>()
  for (const head of source.heads) {
    if (source.lost?.has(head.chain) && !(await isVerifiable(context, { ...source, heads: [head] }, trusted)))
      left.add(head.chain)
  }
  const isKept = ({ chain }: { chain: string }) => !left.has(chain)
  return { ...source, heads: source.heads.filter(isKept), latest: (source.latest ?? []).filter(isKept) }
}

async function isVerifiable(context: CliContext, source: EvidenceSource, trusted: TrustedKeys): Promise<boolean> {
  try {
    return violationsOf(await checkEvidence(context, source, { trusted })).length === 0
  } catch (error) {
    if (error instanceof CliError && (error.exitCode === EXIT.checkFailed || error.httpStatus === 409)) return false
    throw error
  }
}

async function endAll(files: ReadonlyMap<string, HashedFile>): Promise<FileSum[]> {
  const sums: FileSum[] = []
  for (const file of files.values()) sums.push(await file.end())
  return sums
}

/** Writes the list of violations, and removes the verifier, because the verifier requires a manifest. */
async function writeViolations(folder: string, found: object): Promise<void> {
  const text = `${JSON.stringify(found, null, 2)}\n`
  await writeFile(join(folder, VIOLATIONS_FILE), text, { mode: 0o600, flush: true })
  await rm(join(folder, 'verify.mjs'))
}

function toManifest(
  tenantId: string,
  checked: readonly CheckedChain[],
  files: FileSum[],
  { kid, now }: { kid: string; now: number },
): Manifest {
  const chains = checked.map(({ chain, size, head, root }) => ({ chain, size, head, root }))
  return {
    version: MANIFEST_VERSION,
    created_at: isoTime(now),
    tenant_id: tenantId,
    chains,
    rowCount: chains.reduce((sum, { size }) => sum + size, 0),
    merkleRootOfExport: exportRoot(chains).toString('hex'),
    signingKeyFingerprint: kid,
    files,
  }
}

/** POST /transparency/exports/sign. Writes the manifest, the gateway's statement and its signature. Returns the statement. */
async function writeSigned(
  context: CliContext,
  folder: string,
  { manifest, keys, counts }: { manifest: Manifest; keys: readonly PublishedKey[]; counts: ExportCounts },
): Promise<ExportStatement> {
  const api = await context.api()
  const text = `${JSON.stringify(manifest, null, 2)}\n`
  const sha256 = hash('sha256', text, 'hex')
  const { chains, rowCount } = manifest
  const { body } = await api.send<z.infer<typeof SignExportResponse>>({
    method: 'POST',
    path: `${TRANSPARENCY}/exports/sign`,
    json: { chains, manifest_sha256: sha256, row_count: rowCount },
  })
  const { kid, name, note, signature, statement } = body
  const stated = parseJson(statement)
  if (!isStatement(stated)) throw notSigned('its response contains no statement')
  const problem =
    signatureProblem(manifest, hash('sha256', statement, 'hex'), body, keys) ??
    statementProblem(stated, manifest, sha256) ??
    counts.problem(stated)
  if (problem !== undefined) throw notSigned(problem)
  const signed = `${JSON.stringify({ kid, name, note, signature }, null, 2)}\n`
  for (const [file, content] of [
    ['manifest.json', text],
    ['statement.json', statement],
    ['manifest.sig', signed],
  ] as const) {
    await writeFile(join(folder, file), content, { mode: 0o600, flush: true })
  }
  return stated
}

const notSigned = (problem: string) =>
  new CliError(EXIT.checkFailed, `the gateway did not sign this export: ${problem}`, {
    code: 'EXPORT_NOT_SIGNED',
    hints: ['If its key was rotated, or payloads were expunged meanwhile, export again.'],
  })

/** Returns undefined for an invalid note, which --even-violated exports too. */
function checkpointIn(note: string) {
  try {
    return parseCheckpoint(note).checkpoint
  } catch {
    return undefined
  }
}
