/** Reads the evidence of a tenant from the gateway. */
import type { CommitRow } from '../../shared/evidence/commit.ts'
import { GENESIS_HASH } from '../../shared/evidence/entry.ts'
import { isObject } from '../../shared/evidence/keys.ts'
import { EVIDENCE_PAGE } from '../../shared/spec-limits.ts'
import type { ApiRequest } from '../api/client.ts'
import { notAGateway } from '../api/http-errors.ts'
import type { CliContext } from '../context.ts'
import { EXIT } from '../errors.ts'
import { waitingFor } from '../resources/listing.ts'
import type { ChainHead, CheckpointNote, EvidenceSource, SignedRow } from './chains.ts'
import { isChainHead, isCheckpointNote, isCommit, isRowOfChain, isText, type RowOfChain, toChainRow } from './shapes.ts'

export const TRANSPARENCY = 'transparency'
/** The maximum number of commits in one request. */
const COMMITS_AT_ONCE = 100

/** Opens the evidence of the key's tenant at its current size. Later entries are ignored. */
export async function openGateway(context: CliContext): Promise<EvidenceSource> {
  const api = await context.api()

  /** Requests `path`. Returns the response body and the list in it. */
  async function getList<Row>(
    { path, query }: Pick<ApiRequest, 'path' | 'query'>,
    key: string,
    isRow: (json: unknown) => json is Row,
  ): Promise<{ body: object; rows: Row[] }> {
    const request = { method: 'GET', path: `${TRANSPARENCY}/${path}`, query: query ?? {} }
    const { body, requestId } = await waitingFor(context, () => api.send<object>(request))
    const rows: unknown = Reflect.get(body, key)
    if (Array.isArray(rows) && rows.every(isRow)) return { body, rows }
    throw notAGateway(EXIT.error, `${api.baseUrl} did not answer with ${key}`, { requestId })
  }

  // Requests the checkpoints before the sizes, so that a chain that is shorter than its last checkpoint must have been
  // truncated.
  const { rows: latest } = await getList({ path: 'checkpoints' }, 'checkpoints', isCheckpointNote)
  const promised = new Map<string, number>()
  for (const { chain, tree_size } of latest) promised.set(chain, Math.max(tree_size, promised.get(chain) ?? 0))
  const { body, rows: chains } = await getList({ path: 'chains' }, 'chains', isShownChain)
  const tenantId: unknown = Reflect.get(body, 'tenant_id')
  if (!isText(tenantId)) throw notAGateway(EXIT.error, `${api.baseUrl} did not name the tenant of the chains`, {})
  const heads = chains.map(({ chain, size, head }) => ({ chain, size, head }))
  const lost = new Set(
    chains.flatMap(({ chain, loss }) => (isObject(loss) && isText(loss.acknowledged_at) ? [chain] : [])),
  )
  // A removed chain is missing from `chains`, but its checkpoints still name the chain.
  const removed = [...promised.keys()].filter((chain) => !heads.some((head) => head.chain === chain))
  heads.push(...removed.map((chain) => ({ chain, size: 0, head: GENESIS_HASH })))
  heads.sort(byName)

  /** Fetches the commits of the given entries. Commits of the previous page are not fetched again. */
  async function commitsOf(entries: readonly RowOfChain[], known: ReadonlyMap<string, CommitRow>) {
    const commits = new Map<string, CommitRow>()
    const missing: string[] = []
    for (const id of new Set(entries.map((entry) => entry.commit_id))) {
      const commit = known.get(id)
      if (commit === undefined) missing.push(id)
      else commits.set(id, commit)
    }
    for (let at = 0; at < missing.length; at += COMMITS_AT_ONCE) {
      const query = { ids: missing.slice(at, at + COMMITS_AT_ONCE).join(',') }
      const { rows } = await getList({ path: 'commits', query }, 'commits', isCommit)
      for (const commit of rows) commits.set(commit.id, commit)
    }
    return commits
  }

  return {
    tenantId,
    latest,
    lost,
    heads,
    async *rows({ chain, size }: ChainHead): AsyncGenerator<SignedRow> {
      const path = `chains/${encodeURIComponent(chain)}/entries`
      let commits = new Map<string, CommitRow>()
      for (let from = 0; from < size; ) {
        const query = { from, limit: Math.min(EVIDENCE_PAGE, size - from) }
        const { rows } = await getList({ path, query }, 'entries', isRowOfChain)
        // Stops here, so that the verification reports that the chain has fewer entries than its head states.
        if (rows.length === 0) return
        commits = await commitsOf(rows, commits)
        for (const row of rows) yield { row: toChainRow(tenantId, chain, row), commit: commits.get(row.commit_id) }
        // If entries are missing, the next page begins after the gap.
        from = Math.max(from + rows.length, (rows.at(-1)?.seq ?? 0) + 1)
      }
    },
    async *checkpoints({ chain, size }: ChainHead): AsyncGenerator<CheckpointNote> {
      const known = Math.max(size, promised.get(chain) ?? 0)
      for (let from = 0; ; ) {
        const query = { chain, from, limit: EVIDENCE_PAGE }
        const { rows } = await getList({ path: 'checkpoints', query }, 'checkpoints', isCheckpointNote)
        for (const { tree_size, note } of rows) {
          // Skips checkpoints that were added after the start, because they cover entries that this run does not read.
          if (tree_size <= known) yield { chain, tree_size, note }
        }
        const last = rows.at(-1)
        if (last === undefined || rows.length < EVIDENCE_PAGE || last.tree_size <= from) return
        from = last.tree_size
      }
    },
  }
}

/** `loss` is absent in the responses of older gateways. */
const isShownChain = (json: unknown): json is ChainHead & { loss?: unknown } => isChainHead(json)

const byName = (one: ChainHead, other: ChainHead): number => (one.chain < other.chain ? -1 : 1)
