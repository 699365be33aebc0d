import { sql } from 'kysely'
import { HASH_PATTERN } from '../../../shared/evidence/entry.ts'
import { Frontier } from '../../../shared/evidence/frontier.ts'
import { HASH_BYTES, treeRoot } from '../../../shared/evidence/merkle.ts'
import { consistencyProof, inclusionProof, rootOfSize, type SubtreeReader } from '../../../shared/evidence/subtrees.ts'
import { TILE_WIDTH, type Tile } from '../../../shared/evidence/tile.ts'
import type { Db } from '../../platform/db/db.ts'

/** Each stored node is the Merkle root over 2^8 nodes of the level below it. The nodes of level 0 are the leaves. */
export const BITS_PER_LEVEL = 8
const CHILDREN = 2 ** BITS_PER_LEVEL
const HASH_CHARS = 2 * HASH_BYTES

/**
 * Returns the RFC 6962 inclusion path from the entry at `index` to the root of the first `size` entries.
 * @throws RangeError if there are fewer entries
 */
export const proveInclusion = (
  db: Db,
  tenantId: string,
  chain: string,
  index: number,
  size: number,
): Promise<Buffer[]> => inclusionProof(index, size, subtreeReader(db, tenantId, chain))

/**
 * Returns the RFC 6962 consistency path from the first `from` entries to the first `to` entries.
 * @throws RangeError if there are fewer entries
 */
export const proveConsistency = (
  db: Db,
  tenantId: string,
  chain: string,
  from: number,
  to: number,
): Promise<Buffer[]> => consistencyProof(from, to, subtreeReader(db, tenantId, chain))

/** Returns the root over the first `size` entries of a chain. @throws RangeError if there are fewer entries */
export const rootOfChain = (db: Db, tenantId: string, chain: string, size: number): Promise<Buffer> =>
  rootOfSize(size, subtreeReader(db, tenantId, chain))

/**
 * Returns the tree over the first `size` entries. More entries can be appended to this tree.
 * @throws RangeError if there are fewer entries
 */
export async function frontierOf(db: Db, tenantId: string, chain: string, size: number): Promise<Frontier> {
  const read = subtreeReader(db, tenantId, chain)
  const roots: Buffer[] = []
  let from = 0
  for (let level = Math.floor(Math.log2(Math.max(size, 1))); level >= 0; level--) {
    const leaves = 2 ** level
    if (size - from < leaves) continue
    roots.push(await read(level, from / leaves))
    from += leaves
  }
  return new Frontier(size, roots)
}

/**
 * Returns the hashes of a tile (C2SP tlog-tiles), 32 bytes each.
 * @throws RangeError if there are fewer entries
 */
export const readTile = (db: Db, tenantId: string, chain: string, { level, index, width }: Tile): Promise<Buffer> =>
  nodeReader(db, tenantId, chain)(level, index * TILE_WIDTH, width)

/** Returns a reader of subtrees. If the nodes of a subtree are stored, it reads at most 256 rows for the subtree. */
function subtreeReader(db: Db, tenantId: string, chain: string): SubtreeReader {
  const nodes = nodeReader(db, tenantId, chain)
  return async (level, index) => {
    const storedLevel = Math.floor(level / BITS_PER_LEVEL)
    const count = 2 ** (level - storedLevel * BITS_PER_LEVEL)
    return treeRoot(await nodes(storedLevel, index * count, count))
  }
}

/** Reads the roots of `count` consecutive subtrees from `from` on, concatenated. A subtree has 256^`level` leaves. */
type NodeReader = (level: number, from: number, count: number) => Promise<Buffer>

function nodeReader(db: Db, tenantId: string, chain: string): NodeReader {
  async function nodes(level: number, from: number, count: number): Promise<Buffer> {
    if (level === 0) return leaves(from, count)
    const rows = await db
      .selectFrom('evidence_nodes')
      .select(['node_index', 'hash'])
      .where('tenant_id', '=', tenantId)
      .where('chain', '=', chain)
      .where('level', '=', level)
      .where('node_index', '>=', from)
      .where('node_index', '<', from + count)
      .execute()
    // If the stored value of a node is not a hash, the node is recomputed from the level below.
    const whole = rows.filter(({ hash }) => HASH_PATTERN.test(hash))
    const stored = new Map(whole.map(({ node_index, hash }) => [node_index, Buffer.from(hash, 'hex')]))
    const found: Buffer[] = []
    for (let index = from; index < from + count; index++) {
      found.push(stored.get(index) ?? treeRoot(await nodes(level - 1, index * CHILDREN, CHILDREN)))
    }
    return Buffer.concat(found)
  }

  async function leaves(from: number, count: number): Promise<Buffer> {
    const hashes = await readHashes(db, tenantId, chain, { from, to: from + count })
    if (hashes.length !== count * HASH_BYTES) {
      throw new RangeError(`the chain has no entries ${from} to ${from + count - 1}`)
    }
    return hashes
  }

  return nodes
}

/**
 * Returns the hashes of the entries from `from` (inclusive) to `to` (exclusive), 32 bytes each. Returns fewer hashes at
 * the end of the chain, and an empty result if a stored value is not a hash.
 */
export async function readHashes(
  db: Db,
  tenantId: string,
  chain: string,
  { from, to }: { from: number; to: number },
): Promise<Buffer> {
  // The subquery orders the rows. With an ORDER BY in the aggregate function, SQLite would sort the rows again.
  const ordered = db
    .selectFrom('evidence_entries')
    .select('entry_hash')
    .where('tenant_id', '=', tenantId)
    .where('chain', '=', chain)
    .where('seq', '>=', from)
    .where('seq', '<', to)
    .orderBy('seq')
    .as('ordered')
  // The hashes are read as one text. Reading one row per hash would cost several times as much as hashing.
  const { joined, odd } = await db
    .selectFrom(ordered)
    .select(sql<string | null>`string_agg(entry_hash, '')`.as('joined'))
    .select(sql<number>`count(*) filter (where octet_length(entry_hash) <> ${HASH_CHARS})`.as('odd'))
    .executeTakeFirstOrThrow()
  const hex = joined ?? ''
  const bytes = Buffer.from(hex, 'hex')
  // Decoding the text and encoding it again detects anything but lower-case hex, at a tenth of the cost of a regular
  // expression.
  return odd === 0 && bytes.toString('hex') === hex ? bytes : bytes.subarray(0, 0)
}
