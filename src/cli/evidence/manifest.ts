/** The manifest of an export, and its signature. */
import { isCount } from '../../shared/evidence/entry.ts'
import { type ExportedChain, exportOrigin } from '../../shared/evidence/export-root.ts'
import { hasOnly, isSignedBy, type PublishedKey } from '../../shared/evidence/keys.ts'
import { checkpointText, decodeBase64, signedNote } from '../../shared/evidence/note.ts'
import { isText } from './shapes.ts'

/** The version of the format of an export. An export of version 1 has no statement of the gateway. */
export const MANIFEST_VERSION = 2

/** The hash and size of a file of an export. */
export type FileSum = { name: string; sha256: string; bytes: number }

/** The contents of an export (docs/evidence.md, Exports). */
export type Manifest = {
  version: typeof MANIFEST_VERSION
  created_at: string
  tenant_id: string
  chains: ExportedChain[]
  rowCount: number
  /** Hex. */
  merkleRootOfExport: string
  /** The `kid` of the key that signed the manifest. */
  signingKeyFingerprint: string
  files: FileSum[]
}

/** The content of manifest.sig. `signature` is base64. */
export type ManifestSignature = { kid: string; name: string; note: string; signature: string }

/** The files that a manifest covers. */
export const COVERED_FILES = [
  'data.ndjson',
  'data.csv',
  'commits.ndjson',
  'checkpoints.ndjson',
  'keys.json',
  'README.txt',
  'verify.mjs',
] as const
/** The export of an invalid log contains this file instead of the manifest. */
export const VIOLATIONS_FILE = 'violations.json'
export const EXPORT_FILES = [...COVERED_FILES, 'manifest.json', 'statement.json', 'manifest.sig'] as const

/**
 * Returns the reason why the signature of an export is invalid, or undefined if a trusted key signed the statement with
 * this SHA-256.
 */
export function signatureProblem(
  { rowCount, merkleRootOfExport, signingKeyFingerprint }: Manifest,
  statementSha256: string,
  { kid, name, note, signature }: ManifestSignature,
  keys: readonly PublishedKey[],
): string | undefined {
  const key = keys.find((known) => known.kid === kid)
  if (key === undefined) return `it is signed with a key that is not trusted (${kid})`
  if (key.name !== name) return `it is signed as ${name} with the key of ${key.name}`
  if (kid !== signingKeyFingerprint) return `it names the key ${signingKeyFingerprint}, but is signed with ${kid}`
  const root = Buffer.from(merkleRootOfExport, 'hex').toString('base64')
  const text = checkpointText({ origin: exportOrigin(name, statementSha256), size: rowCount, root })
  const bytes = decodeBase64(signature)
  if (bytes === undefined || !isSignedBy(key, text, bytes)) return 'its signature is wrong'
  return note === signedNote(text, name, key.publicKey, bytes) ? undefined : 'its note does not match its signature'
}

const MEMBERS = [
  ...['version', 'created_at', 'tenant_id', 'chains', 'rowCount'],
  ...['merkleRootOfExport', 'signingKeyFingerprint', 'files'],
]
const CHAIN = ['chain', 'size', 'head', 'root']
const FILE = ['name', 'sha256', 'bytes']

/** Whether the value has the form of a manifest and lists each file of an export once. */
export function isManifest(json: unknown): json is Manifest {
  if (!hasOnly(json, MEMBERS) || !Array.isArray(json.chains) || !Array.isArray(json.files)) return false
  const { version, created_at, tenant_id, rowCount, merkleRootOfExport, signingKeyFingerprint } = json
  const texts = [created_at, tenant_id, merkleRootOfExport, signingKeyFingerprint]
  if (version !== MANIFEST_VERSION || !isCount(rowCount) || !texts.every(isText)) return false
  const chains = json.chains.every(
    (chain) => hasOnly(chain, CHAIN) && isCount(chain.size) && [chain.chain, chain.head, chain.root].every(isText),
  )
  const files = json.files.every(
    (file) => hasOnly(file, FILE) && isCount(file.bytes) && [file.name, file.sha256].every(isText),
  )
  if (!chains || !files || !isSorted(json.chains.map(({ chain }: ExportedChain) => chain))) return false
  const names = json.files.map(({ name }: FileSum) => name).sort()
  return names.join() === [...COVERED_FILES].sort().join()
}

/** Whether the names are sorted by code units and contain no duplicates. */
const isSorted = (names: readonly string[]): boolean =>
  names.every((name, at) => at === 0 || (names[at - 1] ?? '') < name)

export const isManifestSignature = (json: unknown): json is ManifestSignature =>
  hasOnly(json, ['kid', 'name', 'note', 'signature']) && Object.values(json).every(isText)
