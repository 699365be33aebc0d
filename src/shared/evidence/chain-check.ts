import { type CommitRow, checkCommitSignature, treeProblem } from './commit.ts'
import { type EntryFields, entryHash, GENESIS_HASH, HASH_PATTERN, isChangesChain, logId, payloadHash } from './entry.ts'
import { Frontier } from './frontier.ts'
import { compareKeys, entryWindowOf, isWithin, type KeyWindow, type PublishedKey, timeOf, windowOf } from './keys.ts'
import type { Checkpoint } from './note.ts'

/** An entry as stored. If the payload was expunged, `payload` is null and only its hash remains. */
export type ChainRow = EntryFields & {
  payload: string | null
  payload_hash: string
  entry_hash: string
  commit_id: string
  leaf_index: number
}

/**
 * The result of checking a chain. If `firstBad` is set, `size` still counts all rows, but the other members describe
 * only the rows before `firstBad`.
 */
export type ChainReport = {
  ok: boolean
  /** Number of rows read. */
  size: number
  /** The root of the Merkle tree, in hex. */
  root: string
  /** The hash of the last entry, in hex. For an empty chain, the value is GENESIS_HASH. */
  head: string
  expunged: number
  /** The position of the first missing or altered row. */
  firstBad?: { seq: number; problem: string }
  /** How many of the given checkpoints match this chain. */
  checkpointsHeld: number
}

export type ChainCheckOptions = {
  /**
   * Checkpoints from outside the chain. The caller must have verified their signatures. Checkpoints of other chains are
   * ignored.
   */
  checkpoints?: readonly Checkpoint[]
  /** If given, every row must be added together with its commit, and one of these keys must have signed the commit. */
  keys?: readonly PublishedKey[]
  /**
   * Maximum number of concurrent signature checks, by default 8. Further checks wait. The limit is small, because a
   * daemon's request commits use the same thread pool and would queue behind the checks.
   */
  signaturesAtOnce?: number
}

/** The result for all rows checked so far. */
type ChainState = {
  tree: Frontier
  head: string
  expunged: number
  checkpointsHeld: number
  /** The size of the last matching checkpoint. The checkpoint proves all rows before this size. */
  matchedSize: number
  /** The time of the last row. */
  lastAt: string
}

/**
 * Checks the rows of one chain from seq 0 on, in constant memory. It needs checkpoints to detect that a chain was
 * truncated or replaced by an older version. It needs keys to detect a completely rewritten chain, or a wrong
 * `commit_id` or `leaf_index`.
 */
export class ChainCheck {
  readonly #tenantId: string
  readonly #chain: string
  readonly #keys: readonly PublishedKey[] | undefined
  readonly #signaturesAtOnce: number
  readonly #checkpoints = new Map<number, Checkpoint[]>()
  #state: ChainState = {
    tree: new Frontier(),
    head: GENESIS_HASH,
    expunged: 0,
    checkpointsHeld: 0,
    matchedSize: 0,
    lastAt: '',
  }
  #size = 0
  #firstBad: ChainReport['firstBad']
  #goodCommit: CommitRow | undefined
  /** The window of the key of #goodCommit. Undefined if the key is unknown. */
  #window: KeyWindow | undefined
  /** The id of the newest key that signed a row. */
  #newestKid: string | undefined
  #signaturesWaiting = 0
  /** This function is called after each signature check. */
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
    for (const checkpoint of checkpoints) {
      const { origin, size } = checkpoint
      if (origin.endsWith(originEnd)) this.#checkpoints.set(size, [...(this.#checkpoints.get(size) ?? []), checkpoint])
    }
    this.#compareRoots()
  }

  /**
   * Checks the next row. Ignores all rows after the first bad row. If this method returns a promise, await the promise
   * before you add the next row.
   */
  add(row: ChainRow, commit?: CommitRow): Promise<void> | undefined {
    this.#size += 1
    if (this.#firstBad !== undefined) return undefined
    const seq = this.#state.tree.size
    const problem = this.#entryProblem(row, seq) ?? this.#placeProblem(row, commit)
    if (problem !== undefined) this.#firstBad ??= { seq, problem }
    if (this.#firstBad !== undefined) return undefined
    const state = this.#state
    if (row.payload === null) state.expunged += 1
    state.head = row.entry_hash
    state.lastAt = row.created_at
    state.tree.append(Buffer.from(row.entry_hash, 'hex'))
    this.#compareRoots()
    const most = this.#signaturesAtOnce
    return this.#signaturesWaiting < most ? undefined : this.#signaturesDownTo(most / 2)
  }

  /** Call this method after the last row. */
  async finish(): Promise<ChainReport> {
    await this.#signaturesDownTo(0)
    const size = this.#size
    const missing = [...this.#checkpoints.keys()].filter((checkpoint) => checkpoint > size).sort((a, b) => a - b)[0]
    if (this.#firstBad === undefined && missing !== undefined) {
      this.#firstBad = { seq: size, problem: `the chain has ${size} entries, but a checkpoint covers ${missing}` }
    }
    const { tree, head, expunged, checkpointsHeld } = this.#state
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
    if (row.tenant_id !== this.#tenantId || row.chain !== this.#chain) return 'it belongs to another chain'
    if (row.seq !== seq) return `it is missing: entry ${row.seq} follows instead`
    if (!HASH_PATTERN.test(row.payload_hash)) return 'its payload_hash is not a hash'
    // The retention period applies only to the payloads of requests. The payloads of changes are never expunged.
    if (row.payload === null && isChangesChain(this.#chain)) return 'its payload is missing'
    if (row.payload !== null && payloadHash(row.payload) !== row.payload_hash) return 'its payload was changed'
    return entryHash(row, this.#state.head, row.payload_hash) === row.entry_hash ? undefined : 'its entry_hash is wrong'
  }

  #placeProblem(row: ChainRow, commit: CommitRow | undefined): string | undefined {
    if (this.#keys === undefined) return undefined
    if (commit === undefined || commit.id !== row.commit_id) return `its commit ${row.commit_id} is missing`
    if (commit !== this.#goodCommit) {
      const problem = treeProblem(commit) ?? this.#keyOrderProblem(commit.kid)
      if (problem !== undefined) return `its commit ${commit.id} ${problem}`
      this.#checkSignature(commit, this.#keys)
      this.#goodCommit = commit
      const key = this.#keys.find(({ kid }) => kid === commit.kid)
      this.#window = key && entryWindowOf(key, this.#keys)
      if (key) this.#newestKid = key.kid
    }
    if (commit.leaves[row.leaf_index] !== row.entry_hash) return `its commit ${commit.id} does not contain it`
    if (this.#window === undefined || isWithin(timeOf(row.created_at), this.#window)) return undefined
    return `it is signed with the key ${commit.kid}, which was not valid at ${row.created_at}`
  }

  #keyOf(kid: string | undefined): PublishedKey | undefined {
    return this.#keys?.find((key) => key.kid === kid)
  }

  /**
   * Returns a reason if a newer key has already signed an entry of this chain. Otherwise, anyone with a stolen retired
   * key could append entries, because an entry states its own time.
   */
  #keyOrderProblem(kid: string): string | undefined {
    if (kid === this.#newestKid) return undefined
    const [key, newest] = [this.#keyOf(kid), this.#keyOf(this.#newestKid)]
    if (key === undefined || newest === undefined || compareKeys(key, newest) >= 0) return undefined
    return `is signed with the key ${kid}, but the newer key ${newest.kid} has signed an earlier entry`
  }

  /** Returns a reason if the key of a checkpoint was retired before the last of its entries was written. */
  #checkpointKeyProblem({ key: signedWith }: Checkpoint): string | undefined {
    if (signedWith === undefined) return undefined
    // The keys may have been renewed since the checkpoint was verified.
    const key = this.#keyOf(signedWith.kid) ?? signedWith
    const { lastAt } = this.#state
    if (key.retiredAt !== null && isLater(lastAt, key.retiredAt))
      return `is signed with a key that was retired at ${key.retiredAt}, before the last of these entries`
    const newest = this.#keyOf(this.#newestKid)
    if (newest === undefined || compareKeys(key, newest) >= 0) return undefined
    return `is signed with the key ${key.kid}, but the newer key ${newest.kid} has signed one of these entries`
  }

  /**
   * Starts the check of a commit's signature. If the signature is wrong, the report ends at the current row, even if
   * later rows have been checked since. A fault in an earlier row takes precedence.
   */
  #checkSignature(commit: CommitRow, keys: readonly PublishedKey[]): void {
    const before = { ...this.#state, tree: this.#state.tree.copy() }
    const seq = before.tree.size
    this.#signaturesWaiting += 1
    checkCommitSignature(commit, keys, (problem) => {
      this.#signaturesWaiting -= 1
      if (problem !== undefined && seq < (this.#firstBad?.seq ?? Number.POSITIVE_INFINITY)) {
        this.#firstBad = { seq, problem: `its commit ${commit.id} ${problem}` }
        this.#state = before
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
    const state = this.#state
    const size = state.tree.size
    const checkpoints = this.#checkpoints.get(size)
    if (checkpoints === undefined) return
    const root = state.tree.root().toString('base64')
    const matching = checkpoints.filter((expected) => expected.root === root).length
    state.checkpointsHeld += matching
    if (matching < checkpoints.length) {
      this.#firstBad = { seq: state.matchedSize, problem: `the first ${size} entries do not match the checkpoint` }
      return
    }
    const [problem] = size === 0 ? [] : checkpoints.flatMap((one) => this.#checkpointKeyProblem(one) ?? [])
    if (problem === undefined) state.matchedSize = size
    else this.#firstBad = { seq: size - 1, problem: `the checkpoint of ${size} entries ${problem}` }
  }
}

/** Whether an entry of this time is outside of the window of a key that was retired. */
const isLater = (at: string, retiredAt: string): boolean =>
  !isWithin(timeOf(at), { ...windowOf({ createdAt: at, retiredAt }), fromMs: Number.NEGATIVE_INFINITY })
