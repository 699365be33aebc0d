/** Reads and verifies an export. */
import { isUtf8 } from 'node:buffer'
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readdir, readFile, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import type { ChainRow } from '../../shared/evidence/chain-check.ts'
import type { CommitRow } from '../../shared/evidence/commit.ts'
import { exportRoot } from '../../shared/evidence/export-root.ts'
import { type ExportStatement, isStatement } from '../../shared/evidence/export-statement.ts'
import { isObject, type PublishedKey, validityProblem } from '../../shared/evidence/keys.ts'
import { parseCheckpoint } from '../../shared/evidence/note.ts'
import { CliError, EXIT, failedToRead } from '../errors.ts'
import type { ChainHead, CheckedChain, CheckpointNote, EvidenceSource, SignedRow } from './chains.ts'
import { CSV_HEAD, contentsOf, logLineOf } from './csv.ts'
import { hasDoubledMember } from './doubled-members.ts'
import { fixedKeys, readKeyFile, type TrustedKeys } from './key-set.ts'
import { linesOf } from './lines.ts'
import {
  EXPORT_FILES,
  isManifest,
  isManifestSignature,
  MANIFEST_VERSION,
  type Manifest,
  signatureProblem,
} from './manifest.ts'
import { isChainRow, isCheckpointOfExport, isCommitOfExport, isWellFormed, parseJson } from './shapes.ts'
import { ExportCounts, statementProblem } from './statement.ts'

/** The error for an invalid export. Its exit code is 10. `what` is the message without hints. */
export class ExportViolated extends CliError {
  readonly what: string

  constructor(what: string) {
    super(EXIT.checkFailed, `the export is invalid: ${what}`, { code: 'EXPORT_VIOLATED' })
    this.what = what
  }
}

/** The keys from a file that the caller chose. These keys replace the keys in the export. */
export type GivenKeys = { file: string; keys: PublishedKey[] }

/** This function is called with the result of each check that passed. */
export type Report = (check: string, found: string) => void

export type OpenedExport = {
  manifest: Manifest
  statement: ExportStatement
  source: EvidenceSource
  trusted: TrustedKeys
  onRow(seen: SignedRow): void
  /**
   * Call this function after all chains have been verified. Throws an error with exit code 10 if the files contain
   * additional data or differ from the manifest.
   */
  assertEnd(checked: readonly CheckedChain[]): Promise<void>
}

/**
 * Opens the log of an export. Throws an error with exit code 10 if the signature of its manifest is invalid or its
 * files differ from the manifest. Throws a usage error if the directory contains no export. If `given` is undefined,
 * trusts the keys in the export.
 */
export async function openExport(
  folder: string,
  given: GivenKeys | undefined,
  report: Report = () => {},
): Promise<OpenedExport> {
  const [bytes = NO_BYTES, signature = NO_BYTES, stated = NO_BYTES] = await Promise.all(
    ['manifest.json', 'manifest.sig', 'statement.json'].map((name) => readPart(folder, name)),
  )
  const own = given === undefined || (await isOwnKeyFile(folder, given.file))
  const trusted = given
    ? fixedKeys(given.keys, own ? 'export' : 'file')
    : fixedKeys(await readOwnKeys(folder), 'export')
  report('keys', own ? 'of the export itself; --keys FILE trusts those of a file' : `of ${given.file}`)
  const [manifest, signed, statement] = [bytes, signature, stated].map(parseWhole)
  if (isObject(manifest) && manifest.version !== MANIFEST_VERSION)
    throw new ExportViolated('manifest.json is of another version')
  if (!isManifest(manifest)) throw new ExportViolated('manifest.json is not a manifest')
  if (!isManifestSignature(signed)) throw new ExportViolated('manifest.sig is not a signature')
  if (!isStatement(statement)) throw new ExportViolated('statement.json is not a statement')
  const problem =
    signatureProblem(manifest, sha256Of(stated), signed, trusted.keys) ??
    statementProblem(statement, manifest, sha256Of(bytes)) ??
    validityProblem(signed.kid, trusted.keys, statement.signed_at)
  if (problem !== undefined) throw new ExportViolated(problem)
  report('manifest', `signed by ${signed.name}, made at ${manifest.created_at} by the clock of its maker`)
  report('statement', `made by the gateway at ${statement.signed_at} by its own clock`)
  report('key fingerprint', signed.kid)
  await assertFiles(folder, manifest)
  report('files', `${manifest.files.length} files as they were written`)
  assertRoot(manifest)
  report('root of the export', manifest.merkleRootOfExport)
  const csv = new CsvCheck(manifest)
  const counts = new ExportCounts()
  const { source, assertRead } = toSource(folder, manifest)
  return {
    manifest,
    statement,
    source,
    trusted,
    onRow({ row }) {
      csv.add(row)
      counts.addRow(row)
    },
    async assertEnd(checked) {
      await assertRead()
      assertRoots(manifest, checked)
      csv.end()
      await countCheckpoints(folder, manifest, counts)
      const missing = counts.problem(statement)
      if (missing !== undefined) throw new ExportViolated(missing)
    },
  }
}

const NO_BYTES = Buffer.of()
const sha256Of = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')

/** A missing statement makes an export invalid. A folder without the other two files is not an export. */
async function readPart(folder: string, name: string): Promise<Buffer> {
  const path = join(folder, name)
  const bytes = readFile(path)
  return name === 'statement.json' ? bytes.catch(() => NO_BYTES) : bytes.catch(failedToRead(path))
}

/** Whether the caller named the key file of the export itself: its keys prove no more than without the option. */
async function isOwnKeyFile(folder: string, file: string): Promise<boolean> {
  const [own, named] = await Promise.all(
    [join(folder, 'keys.json'), file].map((path) => realpath(path).catch(() => path)),
  )
  return own === named
}

/** The notes must be verified before. */
async function countCheckpoints(folder: string, { chains }: Manifest, counts: ExportCounts): Promise<void> {
  const sizes = new Map(chains.map(({ chain, size }) => [chain, size]))
  for await (const { chain, note } of valuesOf(folder, 'checkpoints.ndjson', isCheckpointOfExport)) {
    counts.addCheckpoint(chain, sizes.get(chain) ?? 0, parseCheckpoint(note).checkpoint)
  }
}

/** Parses a file as JSON. Returns undefined for invalid JSON, invalid UTF-8 and duplicate members. */
function parseWhole(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) return undefined
  const text = bytes.toString()
  const value = parseJson(text)
  return value === undefined || hasDoubledMember(text) ? undefined : value
}

/** Throws a usage error if the file contains no keys. */
export const readGivenKeys = async (file: string | undefined): Promise<GivenKeys | undefined> =>
  file === undefined ? undefined : { file, keys: await readKeyFile(file) }

const readOwnKeys = (folder: string): Promise<PublishedKey[]> =>
  readKeyFile(join(folder, 'keys.json')).catch(() => {
    throw new ExportViolated('keys.json contains no published keys')
  })

const NEWLINE = 10

async function assertFiles(folder: string, { files }: Manifest): Promise<void> {
  const known = new Set<string>(EXPORT_FILES)
  const added = (await readdir(folder)).find((name) => !known.has(name) && !name.startsWith('.'))
  if (added !== undefined) throw new ExportViolated(`${added} is not part of an export`)
  for (const { name, sha256, bytes } of files) {
    const path = join(folder, name)
    const hash = createHash('sha256')
    let size = 0
    let last: number | undefined
    try {
      for await (const chunk of createReadStream(path)) {
        hash.update(chunk)
        size += chunk.length
        last = chunk.at(-1)
      }
    } catch {
      throw new ExportViolated(`${name} cannot be read`)
    }
    if (size !== bytes || hash.digest('hex') !== sha256) throw new ExportViolated(`${name} was changed`)
    const isCut = name.endsWith('.ndjson') && size > 0 && last !== NEWLINE
    if (isCut) throw new ExportViolated(`${name} does not end with a newline`)
  }
}

function assertRoot({ chains, rowCount, merkleRootOfExport }: Manifest): void {
  const rows = chains.reduce((sum, { size }) => sum + size, 0)
  if (rows !== rowCount)
    throw new ExportViolated(`its chains have ${rows} entries, but its manifest states ${rowCount}`)
  if (exportRoot(chains).toString('hex') !== merkleRootOfExport)
    throw new ExportViolated('its root does not match its chains')
}

/**
 * Reads the file of the entries and the file of their commits once and in parallel. At any time, only one commit is in
 * memory.
 */
function toSource(folder: string, { tenant_id: tenantId, chains }: Manifest) {
  const rows = valuesOf(folder, 'data.ndjson', isChainRow)
  const commits = valuesOf(folder, 'commits.ndjson', isCommitOfExport)
  let commit: CommitRow | undefined

  const source: EvidenceSource = {
    tenantId,
    heads: chains,
    async *rows({ size }: ChainHead): AsyncGenerator<SignedRow> {
      for (let seen = 0; seen < size; seen++) {
        const next = await rows.next()
        if (next.done) return
        if (next.value.commit_id !== commit?.id) commit = (await commits.next()).value
        yield { row: next.value, commit }
      }
    },
    async *checkpoints({ chain }: ChainHead): AsyncGenerator<CheckpointNote> {
      for await (const checkpoint of valuesOf(folder, 'checkpoints.ndjson', isCheckpointOfExport)) {
        if (checkpoint.chain === chain) yield checkpoint
      }
    },
  }

  /** Throws an error with exit code 10 if a file contains data that does not belong to a chain in the manifest. */
  async function assertRead(): Promise<void> {
    if (!(await rows.next()).done) throw new ExportViolated('data.ndjson has more entries than its manifest')
    if (!(await commits.next()).done) throw new ExportViolated('commits.ndjson has more commits than its entries need')
    const known = new Set(chains.map(({ chain }) => chain))
    for await (const { chain } of valuesOf(folder, 'checkpoints.ndjson', isCheckpointOfExport)) {
      if (!known.has(chain))
        throw new ExportViolated(`checkpoints.ndjson names the unknown chain ${JSON.stringify(chain)}`)
    }
  }

  return { source, assertRead }
}

/**
 * Yields the value of each line. Throws an error with exit code 10 if a line is invalid, or if serialising its value
 * gives a different line. For example, a duplicate member causes a difference.
 */
async function* valuesOf<Row>(
  folder: string,
  name: string,
  isRow: (json: unknown) => json is Row,
): AsyncGenerator<Row, undefined> {
  let at = 0
  for await (const line of linesOf(join(folder, name))) {
    at += 1
    const text = isUtf8(line) ? line.toString() : ''
    const row = parseJson(text)
    const isCanonical = JSON.stringify(row) === text && isWellFormed(row)
    if (!isRow(row) || !isCanonical) throw new ExportViolated(`line ${at} of ${name} is invalid`)
    yield row
  }
  return undefined
}

/** Compares data.csv with the entries. */
class CsvCheck {
  readonly #expected: string | undefined
  readonly #hash = createHash('sha256').update(CSV_HEAD)

  constructor({ files }: Manifest) {
    this.#expected = files.find(({ name }) => name === 'data.csv')?.sha256
  }

  /** Throws an error with exit code 10 if a payload is not an object. */
  add(row: ChainRow): void {
    const content = contentsOf(row)
    if (row.payload !== null && !isObject(content)) {
      throw new ExportViolated(`the payload of entry ${row.seq} of chain ${row.chain} is not an object`)
    }
    this.#hash.update(logLineOf(row, content))
  }

  /** Throws an error with exit code 10 if data.csv differs from the entries. */
  end(): void {
    if (this.#hash.digest('hex') !== this.#expected) throw new ExportViolated('data.csv differs from data.ndjson')
  }
}

/** Throws an error with exit code 10 if the root of a chain differs from the manifest. */
function assertRoots({ chains }: Manifest, checked: readonly CheckedChain[]): void {
  for (const { chain, root } of chains) {
    const found = checked.find((report) => report.chain === chain)
    if (found?.root !== root) throw new ExportViolated(`the root of chain ${chain} differs from the manifest`)
  }
}
