import { leafHash } from './entry.ts'
import { treeRoot } from './merkle.ts'

/**
 * A chain in an export. `head` is the hash of the chain's last entry, and `root` is the root of the chain's tree. Both
 * are hex.
 */
export type ExportedChain = { chain: string; size: number; head: string; root: string }

/** Returns the RFC 6962 root over the chains of an export, in the given order (docs/evidence.md, Exports). */
export const exportRoot = (chains: readonly ExportedChain[]): Buffer => {
  const leaves = chains.map(({ chain, size, head, root }) =>
    leafHash(['aigw-export-v1', chain, String(size), head, root]),
  )
  return treeRoot(Buffer.from(leaves.join(''), 'hex'))
}

/**
 * Returns the origin line of the text that is signed for an export. It contains the hash of the gateway's statement,
 * which contains the hash of the manifest.
 */
export const exportOrigin = (name: string, statementSha256: string): string => `${name}/exports/${statementSha256}`
