import { leafHash } from './entry.ts'
import { treeRoot } from './merkle.ts'

/** A chain in an export. `head` is the hash of its last entry, `root` is the root of its tree. Both are hex. */
export type ExportedChain = { chain: string; size: number; head: string; root: string }

/** The RFC 6962 root over the chains of an export, in their order (docs/evidence.md, Exports). */
export const exportRoot = (chains: readonly ExportedChain[]): Buffer => {
  const leaves = chains.map(({ chain, size, head, root }) =>
    leafHash(['aigw-export-v1', chain, String(size), head, root]),
  )
  return treeRoot(Buffer.from(leaves.join(''), 'hex'))
}

/** The origin line of the text that is signed for an export. It contains the hash of the manifest. */
export const exportOrigin = (name: string, manifestSha256: string): string => `${name}/exports/${manifestSha256}`
