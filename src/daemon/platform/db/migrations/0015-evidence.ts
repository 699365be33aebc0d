import type { Kysely } from 'kysely'
import { toCanonicalJson } from '../../../../shared/canonical-json.ts'
import { rootOfEntries } from '../../../../shared/evidence/commit.ts'
import { entryHash, GENESIS_HASH, payloadHash } from '../../../../shared/evidence/entry.ts'
import { newCommitId } from '../../../../shared/ids.ts'
import type { MigrationWithData } from '../migration-step.ts'

/** The hash chains and their signing keys. The existing log of changes becomes the beginning of the chains. */
export const evidence: MigrationWithData = {
  before: ({ text, integer, tableEnd }) => [
    // The primary key is named after its columns, because SQLite reports the list of columns when it rejects a row.
    `create table evidence_entries (
      tenant_id ${text} not null,
      chain ${text} not null,
      seq ${integer} not null,
      id ${text} not null,
      created_at ${text} not null,
      payload ${text},
      payload_hash ${text} not null,
      entry_hash ${text} not null,
      commit_id ${text} not null,
      leaf_index ${integer} not null,
      constraint evidence_entries_tenant_id_chain_seq primary key (tenant_id, chain, seq)
    )${tableEnd}`,
    'create unique index evidence_entries_by_id on evidence_entries (id)',
    'create index evidence_entries_by_time on evidence_entries (tenant_id, created_at, id)',
    `create table evidence_commits (
      id ${text} primary key,
      created_at ${text} not null,
      kid ${text} not null,
      signer ${text} not null,
      tree_size ${integer} not null,
      root ${text} not null,
      leaves ${text} not null,
      signature ${text} not null
    )${tableEnd}`,
    // This index contains only unsigned commits: those of this migration, until a daemon has opened its signing key and
    // signed them. All later commits are signed when they are written.
    `create index evidence_commits_unsigned on evidence_commits (id) where signature = ''`,
    `create table evidence_checkpoints (
      tenant_id ${text} not null,
      chain ${text} not null,
      tree_size ${integer} not null,
      root ${text} not null,
      kid ${text} not null,
      note ${text} not null,
      created_at ${text} not null,
      primary key (tenant_id, chain, tree_size)
    )${tableEnd}`,
    `create table evidence_nodes (
      tenant_id ${text} not null,
      chain ${text} not null,
      level ${integer} not null,
      node_index ${integer} not null,
      hash ${text} not null,
      primary key (tenant_id, chain, level, node_index)
    )${tableEnd}`,
    `create table evidence_keys (
      kid ${text} primary key,
      name ${text} not null,
      public_key ${text} not null,
      sealed_private_key ${text},
      created_at ${text} not null,
      retired_at ${text}
    )${tableEnd}`,
  ],
  async move(db) {
    const tx = db.withTables<FormerTables>()
    let head: Head | undefined
    let last: FormerEntry | undefined
    for (;;) {
      const rows = await formerEntries(tx, last)
      if (rows.length === 0) return
      const commitId = newCommitId(Date.now())
      const entries: Entry[] = []
      for (const [leaf_index, row] of rows.entries()) {
        if (head?.tenantId !== row.tenant_id) head = { tenantId: row.tenant_id, size: 0, hash: GENESIS_HASH }
        const entry: Entry = { ...linked(head, row), commit_id: commitId, leaf_index }
        entries.push(entry)
        head = { tenantId: row.tenant_id, size: entry.seq + 1, hash: entry.entry_hash }
      }
      await tx.insertInto('evidence_entries').values(entries).execute()
      await tx.insertInto('evidence_commits').values(unsignedCommit(commitId, entries)).execute()
      last = rows.at(-1)
    }
  },
  after: () => ['drop table audit_entries'],
}

const ROWS_PER_COMMIT = 1_000

/** The tables as this migration creates them, regardless of later changes. */
type FormerTables = {
  users: { id: string; tenant_id: string }
  audit_entries: Omit<FormerEntry, 'home'>
  evidence_entries: Entry
  evidence_commits: ReturnType<typeof unsignedCommit>
}
type FormerEntry = {
  id: string
  tenant_id: string
  created_at: string
  type: string
  severity: string
  description: string
  user_id: string
  api_key_id: string
  request_id: string
  endpoint: string
  operation: string
  resource_type: string
  resource_id: string
  outcome: string
  compliance_category: string
  metadata: string
  /** The tenant of the user; null if the user was deleted. */
  home: string | null
}
type Entry = {
  tenant_id: string
  chain: string
  seq: number
  id: string
  created_at: string
  payload: string
  payload_hash: string
  entry_hash: string
  commit_id: string
  leaf_index: number
}
type Head = { tenantId: string; size: number; hash: string }

/** Returns the next page of all entries, ordered by tenant and age. */
function formerEntries(tx: Kysely<FormerTables>, last: FormerEntry | undefined): Promise<FormerEntry[]> {
  let query = tx
    .selectFrom('audit_entries as entry')
    .leftJoin('users', 'users.id', 'entry.user_id')
    .selectAll('entry')
    .select('users.tenant_id as home')
  if (last !== undefined) {
    query = query.where(({ eb, refTuple, tuple }) =>
      eb(
        refTuple('entry.tenant_id', 'entry.created_at', 'entry.id'),
        '>',
        tuple(last.tenant_id, last.created_at, last.id),
      ),
    )
  }
  return query
    .orderBy('entry.tenant_id')
    .orderBy('entry.created_at')
    .orderBy('entry.id')
    .limit(ROWS_PER_COMMIT)
    .execute()
}

function linked(head: Head, row: FormerEntry): Omit<Entry, 'commit_id' | 'leaf_index'> {
  const { id, tenant_id, created_at } = row
  const payload = toPayload(row)
  const fields = { tenant_id, chain: 'changes', seq: head.size, id, created_at }
  const payload_hash = payloadHash(payload)
  return { ...fields, payload, payload_hash, entry_hash: entryHash(fields, head.hash, payload_hash) }
}

/**
 * The person's name and address are omitted, because they must be deleted together with the user. If the user was
 * deleted, the user's tenant is unknown.
 */
function toPayload(row: FormerEntry): string {
  const isForeign = row.home !== null && row.home !== row.tenant_id
  const isOwn = row.home === row.tenant_id
  return toCanonicalJson({
    version: 1,
    kind: 'change',
    issued_at: row.created_at,
    type: row.type,
    operation: row.operation,
    severity: row.severity,
    result: row.outcome,
    compliance_category: row.compliance_category,
    description: toDescription(row),
    request_id: row.request_id,
    endpoint: row.endpoint,
    actor: isForeign ? 'operator' : 'key',
    user_id: isOwn ? row.user_id : null,
    key_id: isOwn ? row.api_key_id : null,
    resource_type: row.resource_type,
    resource_id: row.resource_id,
    metadata: toFacts(JSON.parse(row.metadata), row.type),
  })
}

/** The entries of these actions contained names and addresses of people. */
const OF_PEOPLE: ReadonlySet<string> = new Set(['user_management', 'key_management', 'tenant_management'])

const toDescription = ({ type, operation, resource_type, resource_id, description }: FormerEntry): string =>
  OF_PEOPLE.has(type) ? `External API: ${operation} ${resource_type} ${resource_id}` : description

/** Converts facts to the current format: without personal data, and without the search texts of guard rules. */
function toFacts({ changes, ...facts }: Facts, type: string): Facts {
  if (type === 'guard_rule_management') {
    const { words, pattern, ...rest } = facts
    return {
      ...rest,
      ...(Array.isArray(words) && { words: words.length }),
      ...(typeof pattern === 'string' && { patternChars: pattern.length }),
      ...(changes !== undefined && { changes }),
    }
  }
  const shown = OF_PEOPLE.has(type) ? withoutPerson : (given: Facts) => given
  return { ...shown(facts), ...(changes !== undefined && { changes: isFacts(changes) ? shown(changes) : changes }) }
}

const withoutPerson = ({ name, email, username, ...facts }: Facts): Facts => facts

type Facts = Record<string, unknown>
const isFacts = (value: unknown): value is Facts => typeof value === 'object' && value !== null && !Array.isArray(value)

/** A commit without a signature. The first daemon that starts signs this commit. */
const unsignedCommit = (id: string, entries: readonly Entry[]) => ({
  id,
  created_at: entries.at(-1)?.created_at ?? '',
  kid: '',
  signer: '',
  tree_size: entries.length,
  root: rootOfEntries(entries.map(({ entry_hash }) => entry_hash).join('')),
  leaves: entries.map(({ entry_hash }) => entry_hash).join(''),
  signature: '',
})
