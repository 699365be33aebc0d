import { hash } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { CSV_HEAD, toLogLine } from '../../../src/cli/evidence/csv.ts'
import type { COVERED_FILES, Manifest } from '../../../src/cli/evidence/manifest.ts'
import type { ChainRow } from '../../../src/shared/evidence/chain-check.ts'
import type { CommitRow } from '../../../src/shared/evidence/commit.ts'
import { logId } from '../../../src/shared/evidence/entry.ts'
import { exportOrigin, exportRoot } from '../../../src/shared/evidence/export-root.ts'
import type { ExportStatement } from '../../../src/shared/evidence/export-statement.ts'
import { toKeySet } from '../../../src/shared/evidence/keys.ts'
import { parseCheckpoint } from '../../../src/shared/evidence/note.ts'
import { type TestSigner, testNote } from './signer.ts'
import { checkpointOf } from './stored-chain.ts'

export const VERIFIERS = join(import.meta.dirname, '../../../docs/verifiers')

/** The content of an export. It is written as given, even if it is wrong. */
export type ExportParts = {
  rows: readonly ChainRow[]
  commits: readonly CommitRow[]
  notes: readonly string[]
  csv: string
  manifest: object
  /** Texts that replace generated parts. */
  files?: Record<string, string | Buffer>
  /** Changes the text of the manifest before it is signed. */
  inManifest?: (text: string) => string
  /** The rows of the gateway's store, if they differ from those of the export. */
  stored?: readonly ChainRow[]
  /** The checkpoints of the gateway's store, if they differ from those of the export. */
  storedNotes?: readonly string[]
  /** Changes the gateway's statement before it is signed. */
  inStatement?: (text: string) => string
}

/** The parts of an export of these chains, each with a checkpoint at its end. */
export function exportParts(
  chains: readonly { rows: ChainRow[]; commits: Map<string, CommitRow> }[],
  signer: TestSigner,
): ExportParts {
  const rows = chains.flatMap((chain) => chain.rows)
  const notes = chains.map((chain) => {
    const { origin, size, root } = checkpointOf(chain.rows)
    return testNote(origin, size, root, signer)
  })
  return {
    rows,
    commits: chains.flatMap((chain) => [...chain.commits.values()]),
    notes,
    csv: CSV_HEAD + rows.map(toLogLine).join(''),
    manifest: {},
  }
}

const sha256 = (data: string | Buffer): string => hash('sha256', data, 'hex')

/** One value on each line. */
export const toLines = (values: readonly unknown[]): string =>
  values.map((value) => `${JSON.stringify(value)}\n`).join('')

/** Writes an export in the format of docs/evidence.md, with a matching and signed manifest. */
export async function writeExport(folder: string, parts: ExportParts, signer: TestSigner): Promise<void> {
  const { rows, commits, notes, csv } = parts
  const texts: Record<(typeof COVERED_FILES)[number], string | Buffer> = {
    'data.ndjson': toLines(rows),
    'data.csv': csv,
    'commits.ndjson': toLines(commits),
    'checkpoints.ndjson': toLines(notes.map((note) => toCheckpointNote(note, rows))),
    'keys.json': JSON.stringify(toKeySet([signer.published])),
    'README.txt': 'An export.\n',
    'verify.mjs': await readFile(join(VERIFIERS, 'verify.mjs'), 'utf8'),
    ...parts.files,
  }
  await mkdir(folder, { recursive: true })
  for (const [name, text] of Object.entries(texts)) await writeFile(join(folder, name), text)

  const chains = [...new Set(rows.map(({ chain }) => chain))].map((chain) => {
    const own = rows.filter((row) => row.chain === chain)
    const root = Buffer.from(checkpointOf(own).root, 'base64').toString('hex')
    return { chain, size: own.length, head: own.at(-1)!.entry_hash, root }
  })
  const manifest: Manifest = {
    version: 2,
    created_at: '2026-02-01T00:00:00.000Z',
    tenant_id: 'acme',
    chains,
    rowCount: rows.length,
    merkleRootOfExport: exportRoot(chains).toString('hex'),
    signingKeyFingerprint: signer.published.kid,
    files: Object.entries(texts).map(([name, text]) => ({
      name,
      sha256: sha256(text),
      bytes: Buffer.byteLength(text),
    })),
    ...parts.manifest,
  }
  const { inManifest = (written) => written, inStatement = (written) => written } = parts
  const text = inManifest(JSON.stringify(manifest))
  const statement = inStatement(JSON.stringify(statementOf(parts, manifest, sha256(text))))
  await writeFile(join(folder, 'manifest.json'), text)
  await writeFile(join(folder, 'statement.json'), statement)
  await writeFile(join(folder, 'manifest.sig'), JSON.stringify(signed(manifest, statement, signer)))
}

/** The statement of a gateway whose store has these rows and checkpoints. */
function statementOf(
  { rows, notes, stored = rows, storedNotes = notes }: ExportParts,
  { chains, tenant_id }: Manifest,
  manifest_sha256: string,
): ExportStatement {
  const digestOf = (lines: unknown[]) => sha256(lines.map((line) => `${line}\n`).join(''))
  return {
    version: 1,
    signed_at: '2026-02-01T00:00:01.000Z',
    tenant_id,
    manifest_sha256,
    chains: chains.map(({ chain, size }) => {
      const own = stored.filter((row) => row.chain === chain)
      const expunged = own.filter((row) => row.seq < size && row.payload === null).map(({ seq }) => seq)
      const checkpoints = storedNotes
        .map((note) => ({ note: toCheckpointNote(note, rows), ...parseCheckpoint(note).checkpoint }))
        .filter((checkpoint) => checkpoint.note.chain === chain && checkpoint.size < size)
      return {
        chain,
        entries: Math.max(own.length, size),
        size,
        expunged: expunged.length,
        expunged_sha256: digestOf(expunged),
        checkpoints: checkpoints.length,
        checkpoints_sha256: digestOf(checkpoints.map((checkpoint) => `${checkpoint.size} ${checkpoint.root}`)),
      }
    }),
  }
}

/** A note as written in checkpoints.ndjson, of the chain whose log it names, or of none. */
export function toCheckpointNote(note: string, rows: readonly ChainRow[]) {
  const { origin, size: tree_size } = parseCheckpoint(note).checkpoint
  const row = rows.find(({ tenant_id, chain }) => origin.endsWith(`/${logId(tenant_id, chain)}`))
  return { chain: row?.chain ?? 'requests-000000000000', tree_size, note }
}

function signed({ rowCount, merkleRootOfExport }: Manifest, text: string, signer: TestSigner) {
  const { kid, name } = signer.published
  const root = Buffer.from(merkleRootOfExport, 'hex').toString('base64')
  const note = testNote(exportOrigin(name, sha256(text)), rowCount, root, signer)
  const line = note.slice(note.lastIndexOf(' ') + 1)
  return { kid, name, note, signature: Buffer.from(line, 'base64').subarray(4).toString('base64') }
}
