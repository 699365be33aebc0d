import { type CommitRow, checkCommitSignature, treeProblem } from './commit.ts'
import { CHANGES_CHAIN, type EntryFields, entryHash, GENESIS_HASH, HASH_PATTERN, logId, payloadHash } from './entry.ts'
import { Frontier } from './frontier.ts'
import type { PublishedKey } from './keys.ts'
import type { Checkpoint } from './note.ts'

/** An entry as it is stored. `payload` is null once it was expunged; its hash stays. */
export type ChainRow = EntryFields & {
  payload: string | null
  payload_hash: string
  entry_hash: string
  commit_id: string
  leaf_index: number
}

/** What a walk over a chain has found. Of a chain that does not hold, all but `size` is about the rows before `firstBad`. */
export type ChainReport = {
  ok: boolean
  /** Rows that were seen. */
  size: number
  /** Of the Merkle tree, hex. */
  root: string
  /** The hash of the last entry, hex; GENESIS_HASH for an empty chain. */
  head: string
  expunged: number
  /** Where the first row stands, or should, that is not what was written. */
  firstBad?: { seq: number; problem: string }
  /** How many of the given checkpoints this chain agrees with. */
  checkpointsHeld: number
}

export type ChainCheckOptions = {
  /** From elsewhere than the chain, with signatures that were checked. Those of other chains are passed over. */
  checkpoints?: readonly Checkpoint[]
  /** With them, every row must come with its commit, and that must be signed with one of them. */
  keys?: readonly PublishedKey[]
  /**
   * Signatures that are checked beside the walk, which waits when there are more; 8 unless said otherwise. Few, because a
   * daemon that checks its log has commits of requests in the same threads, and these would come after all of them.
   */
  signaturesAtOnce?: number
}

/** What the rows so far have come to. */
type Walked = {
  tree: Frontier
  head: string
  expunged: number
  checkpointsHeld: number
  /** The size of the last checkpoint that held: what stands before it is vouched for. */
  heldSize: number
}

/**
 * Walks the rows of one chain from seq 0 on, in constant memory. Without checkpoints it cannot tell a chain from which the
 * end was cut, or an older state of it, from one that is whole; without keys, a chain that was written anew altogether, nor
 * whether `commit_id` and `leaf_index` are right.
 */
export class ChainCheck {
  readonly #tenantId: string
  readonly #chain: string
  readonly #keys: readonly PublishedKey[] | undefined
  readonly #signaturesAtOnce: number
  readonly #roots = new Map<number, string[]>()
  #walked: Walked = { tree: new Frontier(), head: GENESIS_HASH, expunged: 0, checkpointsHeld: 0, heldSize: 0 }
  #size = 0
  #firstBad: ChainReport['firstBad']
  #goodCommit: CommitRow | undefined
  #signaturesWaiting = 0
  /** Told of each signature that was checked. */
  #onChecked = () => {}

  constructor(
    tenantId: string,
    chain: string,
    { checkpoints = [], keys, signaturesAtOnce = 8 }: ChainCheckOptions = {},
  ) {
    this.#tenantId = tenantId
    this.#chain = chain
    this.#keys = keys
    this.#signaturesAtOnce = signaturesAtOnce
    const originEnd = `/logs/${logId(tenantId, chain)}`
    for (const { origin, size, root } of checkpoints) {
      if (origin.endsWith(originEnd)) this.#roots.set(size, [...(this.#roots.get(size) ?? []), root])
    }
    this.#compareRoots()
  }

  /**
   * The next row; nothing is looked at any more after one that did not hold. A promise is to be awaited before the row that
   * comes after it.
   */
  add(row: ChainRow, commit?: CommitRow): Promise<void> | undefined {
    this.#size += 1
    if (this.#firstBad !== undefined) return undefined
    const seq = this.#walked.tree.size
    const problem = this.#entryProblem(row, seq) ?? this.#placeProblem(row, commit)
    if (problem !== undefined) this.#firstBad ??= { seq, problem }
    if (this.#firstBad !== undefined) return undefined
    const walked = this.#walked
    if (row.payload === null) walked.expunged += 1
    walked.head = row.entry_hash
    walked.tree.append(Buffer.from(row.entry_hash, 'hex'))
    this.#compareRoots()
    const most = this.#signaturesAtOnce
    return this.#signaturesWaiting < most ? undefined : this.#signaturesDownTo(most / 2)
  }

  /** After the last row. */
  async finish(): Promise<ChainReport> {
    await this.#signaturesDownTo(0)
    const size = this.#size
    const missing = [...this.#roots.keys()].filter((checkpoint) => checkpoint > size).sort((a, b) => a - b)[0]
    if (this.#firstBad === undefined && missing !== undefined) {
      this.#firstBad = { seq: size, problem: `there are ${size} entries, and a checkpoint of ${missing}` }
    }
    const { tree, head, expunged, checkpointsHeld } = this.#walked
    return {
      ok: this.#firstBad === undefined,
      size,
      root: tree.root().toString('hex'),
      head,
      expunged,
      ...(this.#firstBad !== undefined && { firstBad: this.#firstBad }),
      checkpointsHeld,
    }
  }

  #entryProblem(row: ChainRow, seq: number): string | undefined {
    if (row.tenant_id !== this.#tenantId || row.chain !== this.#chain) return 'it is of another chain'
    if (row.seq !== seq) return `it is missing: entry ${row.seq} stands in its place`
    if (!HASH_PATTERN.test(row.payload_hash)) return 'its payload_hash is not a hash'
    // Retention is for what requests leave.
    if (row.payload === null && this.#chain === CHANGES_CHAIN) return 'its payload is missing'
    if (row.payload !== null && payloadHash(row.payload) !== row.payload_hash) return 'its payload was changed'
    return entryHash(row, this.#walked.head, row.payload_hash) === row.entry_hash
      ? undefined
      : 'its entry_hash is wrong'
  }

  #placeProblem(row: ChainRow, commit: CommitRow | undefined): string | undefined {
    if (this.#keys === undefined) return undefined
    if (commit === undefined || commit.id !== row.commit_id) return `its commit ${row.commit_id} is missing`
    if (commit !== this.#goodCommit) {
      const problem = treeProblem(commit)
      if (problem !== undefined) return `its commit ${commit.id} ${problem}`
      this.#checkSignature(commit, this.#keys)
      this.#goodCommit = commit
    }
    return commit.leaves[row.leaf_index] === row.entry_hash ? undefined : `its commit ${commit.id} does not hold it`
  }

  /** When it is wrong, the walk has ended where it is now, however far it came by then, unless something is wrong before it. */
  #checkSignature(commit: CommitRow, keys: readonly PublishedKey[]): void {
    const before = { ...this.#walked, tree: this.#walked.tree.copy() }
    const seq = before.tree.size
    this.#signaturesWaiting += 1
    checkCommitSignature(commit, keys, (problem) => {
      this.#signaturesWaiting -= 1
      if (problem !== undefined && seq < (this.#firstBad?.seq ?? Number.POSITIVE_INFINITY)) {
        this.#firstBad = { seq, problem: `its commit ${commit.id} ${problem}` }
        this.#walked = before
      }
      this.#onChecked()
    })
  }

  #signaturesDownTo(count: number): Promise<void> {
    return new Promise((resolve) => {
      this.#onChecked = () => {
        if (this.#signaturesWaiting <= count) resolve()
      }
      this.#onChecked()
    })
  }

  #compareRoots(): void {
    const walked = this.#walked
    const size = walked.tree.size
    const roots = this.#roots.get(size)
    if (roots === undefined) return
    const root = walked.tree.root().toString('base64')
    const agreeing = roots.filter((expected) => expected === root).length
    walked.checkpointsHeld += agreeing
    if (agreeing === roots.length) walked.heldSize = size
    else {
      const problem = `the first ${size} entries are not those of the checkpoint`
      this.#firstBad = { seq: walked.heldSize, problem }
    }
  }
}
