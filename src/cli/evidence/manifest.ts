import { isCount } from '../../shared/evidence/entry.ts'
import { type ExportedChain, exportOrigin } from '../../shared/evidence/export-root.ts'
import { isObject, isSignedBy, type PublishedKey } from '../../shared/evidence/keys.ts'
import { checkpointText, decodeBase64, signedNote } from '../../shared/evidence/note.ts'
import { isText } from './shapes.ts'

/** What a file of an export holds, so that a changed one is found. */
export type FileSum = { name: string; sha256: string; bytes: number }

/** What an export is about (docs/evidence.md, Exports). */
export type Manifest = {
  version: 1
  created_at: string
  tenant_id: string
  chains: ExportedChain[]
  rowCount: number
  /** Hex. */
  merkleRootOfExport: string
  /** The `kid` of the key that signed. */
  signingKeyFingerprint: string
  files: FileSum[]
}

/** The content of manifest.sig. `signature` is base64. */
export type ManifestSignature = { kid: string; name: string; note: string; signature: string }

/** Files that a manifest vouches for, and the two that it cannot. */
export const COVERED_FILES = [
  'data.ndjson',
  'data.csv',
  'commits.ndjson',
  'checkpoints.ndjson',
  'keys.json',
  'README.txt',
  'verify.mjs',
] as const
/** In place of the manifest, in the export of a log that does not hold. */
export const VIOLATIONS_FILE = 'violations.json'
export const EXPORT_FILES = [...COVERED_FILES, 'manifest.json', 'manifest.sig'] as const

/** What is wrong with a manifest's signature; undefined for one that a trusted key made over exactly these bytes. */
export function signatureProblem(
  { rowCount, merkleRootOfExport, signingKeyFingerprint }: Manifest,
  sha256: string,
  { kid, name, note, signature }: ManifestSignature,
  keys: readonly PublishedKey[],
): string | undefined {
  const key = keys.find((known) => known.kid === kid)
  if (key === undefined) return `it is signed with a key that is not trusted (${kid})`
  if (key.name !== name) return `it is signed as ${name} with the key of ${key.name}`
  if (kid !== signingKeyFingerprint) return `it names the key ${signingKeyFingerprint} and is signed with ${kid}`
  const root = Buffer.from(merkleRootOfExport, 'hex').toString('base64')
  const text = checkpointText({ origin: exportOrigin(name, sha256), size: rowCount, root })
  const bytes = decodeBase64(signature)
  if (bytes === undefined || !isSignedBy(key, text, bytes)) return 'its signature is wrong'
  return note === signedNote(text, name, key.publicKey, bytes) ? undefined : 'the note beside its signature is another'
}

/** Whether JSON has the form of a manifest, with every file that an export has, each once. */
export function isManifest(json: unknown): json is Manifest {
  if (!isObject(json) || !Array.isArray(json.chains) || !Array.isArray(json.files)) return false
  const { version, created_at, tenant_id, rowCount, merkleRootOfExport, signingKeyFingerprint } = json
  const texts = [created_at, tenant_id, merkleRootOfExport, signingKeyFingerprint]
  if (version !== 1 || !isCount(rowCount) || !texts.every(isText)) return false
  const chains = json.chains.every(
    (chain) => isObject(chain) && isCount(chain.size) && [chain.chain, chain.head, chain.root].every(isText),
  )
  const files = json.files.every(
    (file) => isObject(file) && isCount(file.bytes) && [file.name, file.sha256].every(isText),
  )
  if (!chains || !files || !isSorted(json.chains.map(({ chain }: ExportedChain) => chain))) return false
  const names = json.files.map(({ name }: FileSum) => name).sort()
  return names.join() === [...COVERED_FILES].sort().join()
}

/** Each name once, in the order of code units. */
const isSorted = (names: readonly string[]): boolean =>
  names.every((name, at) => at === 0 || (names[at - 1] ?? '') < name)

export const isManifestSignature = (json: unknown): json is ManifestSignature =>
  isObject(json) && [json.kid, json.name, json.note, json.signature].every(isText)
