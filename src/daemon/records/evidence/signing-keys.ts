import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import { sql } from 'kysely'
import { commitText } from '../../../shared/evidence/commit.ts'
import { CHANGES_CHAIN } from '../../../shared/evidence/entry.ts'
import { KEY_WINDOW_SLACK_MS, keyIdOf, type PublishedKey } from '../../../shared/evidence/keys.ts'
import { EVIDENCE_KEY_CACHE_MS } from '../../../shared/spec-limits.ts'
import { type Clock, isoTime } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import { engineOf } from '../../platform/db/engine.ts'
import type { EvidenceKeyRow } from '../../platform/db/tables.ts'
import type { Log } from '../../platform/log.ts'
import { type MasterKey, openSecret, type SealedLocation, sealSecret } from '../../platform/secrets/seal.ts'
import type { SealedColumn } from '../../platform/secrets/sealed-column.ts'

/** The current signing key. */
export type Signer = {
  kid: string
  name: string
  /** 32 bytes */
  publicKey: Buffer
  /** Milliseconds since 1970. */
  createdAtMs: number
  /** Returns the Ed25519 signature (64 bytes) of the text in UTF-8. */
  sign(text: string): Buffer
}

/** The keys that sign evidence: one current key, and the retired keys. Retired keys stay published. */
export type SigningKeys = {
  /**
   * Returns the current key. The key is cached for up to EVIDENCE_KEY_CACHE_MS. While the cache is fresh, this function
   * returns synchronously.
   * @throws errors of the store
   */
  current(): Signer | Promise<Signer>
  /**
   * Like `current`, but inside a transaction: if a query is needed, `tx` runs it. With PostgreSQL, the key is always read
   * from the store. Chains that several daemons write need this: verifiers reject an older key after a newer one.
   */
  currentIn(tx: Db): Signer | Promise<Signer>
  /** Returns all keys, current and retired, newest first. */
  published(): Promise<PublishedKey[]>
  /** Retires the current key, deletes its private key and creates the next key. Call `forget` after the commit. */
  rotate(tx: Db): Promise<PublishedKey>
  /** Invalidates the cached key. */
  forget(): void
}

export type SigningKeyOptions = {
  masterKey: MasterKey
  /** The name of new keys. If undefined, new keys get the name of the last key, or a random name if there is no key. */
  name: string | undefined
  clock: Clock
  log?: Pick<Log, 'error'>
}

/** Opens the keys of this store. Creates the first key if the store contains no key. @throws SealBrokenError */
export async function openSigningKeys(
  db: Db,
  { masterKey, name, clock, log }: SigningKeyOptions,
): Promise<SigningKeys> {
  const isShared = engineOf(db).name === 'postgres'
  let known: { signer: Signer; loadedAtMs: number } | undefined

  // With SQLite, no other process can rotate the keys, so the cache never expires.
  const isFresh = (loadedAtMs: number) => !isShared || clock.monotonic() - loadedAtMs < EVIDENCE_KEY_CACHE_MS
  const freshSigner = () =>
    known !== undefined && isFresh(known.loadedAtMs) && !isFromFuture(known.signer) ? known.signer : undefined

  /**
   * Whether verifiers would reject signatures of now, because the key was created later. This is the case after the
   * clock ran ahead when the key was created, or if it is behind now.
   */
  const isFromFuture = ({ createdAtMs }: Signer): boolean => clock.now() < createdAtMs - KEY_WINDOW_SLACK_MS

  /** Reads the current key. Replaces a key from the future in a transaction. */
  async function load(from: Db): Promise<Signer> {
    const row = await findCurrent(from)
    if (row === undefined) throw new Error('the store has no active signing key for evidence')
    const signer = toSigner(masterKey, row)
    if (!isFromFuture(signer)) return signer
    return from.isTransaction ? replace(from) : from.transaction().execute(replace)
  }

  async function replace(tx: Db): Promise<Signer> {
    await lockKeys(tx)
    const row = await findCurrent(tx)
    const signer = row && toSigner(masterKey, row)
    // Another daemon may have replaced the key in the meantime.
    if (signer && !isFromFuture(signer)) return signer
    const made = await rotate(tx)
    log?.error(
      { retired: row?.kid, created_at: row?.created_at, kid: made.kid },
      'the clock is before the creation of the signing key, so a new key signs: check the clock',
    )
    return toSigner(masterKey, made)
  }

  async function rotate(tx: Db): Promise<EvidenceKeyRow> {
    const former = await findCurrent(tx)
    await tx
      .updateTable('evidence_keys')
      .set({ retired_at: await endOfUse(tx, isoTime(clock.now())), sealed_private_key: null })
      .where('retired_at', 'is', null)
      .execute()
    return insertKey(tx, name ?? former?.name ?? `aigw-${randomBytes(6).toString('hex')}`)
  }

  async function loadAndKeep(): Promise<Signer> {
    const loadedAtMs = clock.monotonic()
    const signer = await load(db)
    // A slower query may return an older key than one that started later.
    if (known === undefined || known.loadedAtMs <= loadedAtMs) known = { signer, loadedAtMs }
    return known.signer
  }

  async function insertKey(tx: Db, keyName: string): Promise<EvidenceKeyRow> {
    const row = newKey(masterKey, keyName, isoTime(clock.now()))
    await tx.insertInto('evidence_keys').values(row).execute()
    return row
  }

  await db.transaction().execute(async (tx) => {
    await lockKeys(tx)
    const isFirst = await isUnsigned(tx)
    const hasCurrent = (await findCurrent(tx)) !== undefined
    if (!hasCurrent) await insertKey(tx, name ?? `aigw-${randomBytes(6).toString('hex')}`)
    // Decrypt the key now, so that a wrong master key is detected at start, not at the first request.
    const signer = await load(tx)
    if (isFirst) await signUnsigned(tx, signer, clock)
    await tx.deleteFrom('evidence_unsigned').execute()
  })
  const unsigned = await countUnsigned(db)
  if (unsigned > 0)
    log?.error({ unsigned }, 'evidence commits without a signature: another program has changed the store')

  return {
    current: () => freshSigner() ?? loadAndKeep(),
    // The result is not cached: if the transaction has created the key, a rollback would remove it again.
    currentIn: (tx) => (isShared ? load(tx) : (freshSigner() ?? load(tx))),
    published: () => publishedKeys(db),
    async rotate(tx) {
      await lockKeys(tx)
      return toPublished(await rotate(tx))
    },
    forget() {
      known = undefined
    },
  }
}

/**
 * Returns the end of the validity window of the current key: now, or a later time if the clock ran ahead before. The
 * window contains all signatures of the key, and its end is after that of every older key: verifiers sort the keys by it.
 */
async function endOfUse(tx: Db, now: string): Promise<string> {
  const commit = await tx
    .selectFrom('evidence_commits')
    .select('created_at')
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst()
  const checkpoint = await tx
    .selectFrom('evidence_checkpoints')
    .select('created_at')
    .orderBy('created_at', 'desc')
    .limit(1)
    .executeTakeFirst()
  const keys = await tx.selectFrom('evidence_keys').select(['created_at', 'retired_at']).execute()
  const times = keys.map(({ created_at }) => created_at)
  for (const { retired_at } of keys) if (retired_at !== null) times.push(isoTime(Date.parse(retired_at) + 1))
  for (const row of [commit, checkpoint]) if (row) times.push(row.created_at)
  // All times have the same notation, so they sort as texts.
  return times.reduce((latest, time) => (time > latest ? time : latest), now)
}

/** Returns all keys of the store, current and retired, newest first. */
export async function publishedKeys(db: Db): Promise<PublishedKey[]> {
  const rows = await db.selectFrom('evidence_keys').selectAll().orderBy('created_at', 'desc').orderBy('kid').execute()
  return rows.map(toPublished)
}

/**
 * Takes the key lock. Only one daemon can have this lock at a time. On SQLite, the transactions of the daemon are
 * already serialised.
 */
async function lockKeys(tx: Db): Promise<void> {
  if (engineOf(tx).name === 'postgres') await sql`lock table evidence_keys in exclusive mode`.execute(tx)
}

const findCurrent = (db: Db): Promise<EvidenceKeyRow | undefined> =>
  db.selectFrom('evidence_keys').selectAll().where('retired_at', 'is', null).executeTakeFirst()

/** Whether the store contains a key, current or retired. */
export const hasKeys = async (db: Db): Promise<boolean> =>
  (await db.selectFrom('evidence_keys').select('kid').limit(1).executeTakeFirst()) !== undefined

/** Whether this store is older than signing keys, and no key has signed anything in it yet. */
export async function isUnsigned(db: Db): Promise<boolean> {
  const upgrade = await db.selectFrom('evidence_unsigned').select('upgraded_at').limit(1).executeTakeFirst()
  return upgrade !== undefined && !(await hasKeys(db)) && !(await wasSigned(db))
}

/** Whether a key of this store has signed something. Then the store has lost its keys, and is not a new store. */
async function wasSigned(db: Db): Promise<boolean> {
  const commit = await db
    .selectFrom('evidence_commits')
    .select('id')
    .where('signature', '<>', '')
    .limit(1)
    .executeTakeFirst()
  const checkpoint = await db.selectFrom('evidence_checkpoints').select('kid').limit(1).executeTakeFirst()
  // The migration wrote only chains of changes, so all entries of requests had a signature.
  const request = await db
    .selectFrom('evidence_entries')
    .select('id')
    .where('chain', '<>', CHANGES_CHAIN)
    .limit(1)
    .executeTakeFirst()
  return (commit ?? checkpoint ?? request) !== undefined
}

async function countUnsigned(db: Db): Promise<number> {
  const { count } = await db
    .selectFrom('evidence_commits')
    .select(sql<number>`count(*)`.as('count'))
    .where('signature', '=', '')
    .executeTakeFirstOrThrow()
  return count
}

/**
 * Signs entries that a migration has converted. Called only with the first key of a store that is older than signing
 * keys. Later unsigned entries are forgeries; signing them would make them look genuine.
 */
async function signUnsigned(tx: Db, signer: Signer, clock: Clock): Promise<void> {
  const commits = await tx
    .selectFrom('evidence_commits')
    .select(['id', 'tree_size', 'root'])
    .where('signature', '=', '')
    .execute()
  for (const { id, tree_size, root } of commits) {
    const signature = signer.sign(commitText({ id, signer: signer.name, tree_size, root })).toString('base64')
    const signed = { kid: signer.kid, signer: signer.name, signature, created_at: isoTime(clock.now()) }
    await tx.updateTable('evidence_commits').set(signed).where('id', '=', id).execute()
  }
}

function newKey(masterKey: MasterKey, name: string, createdAt: string): EvidenceKeyRow {
  const { privateKey } = generateKeyPairSync('ed25519')
  const publicKey = publicBytes(privateKey)
  const kid = keyIdOf(publicKey)
  const secret = privateKey.export({ format: 'der', type: 'pkcs8' }).toString('base64')
  return {
    kid,
    name,
    public_key: publicKey.toString('base64'),
    sealed_private_key: sealSecret(masterKey, locationOf(kid), secret),
    created_at: createdAt,
    retired_at: null,
  }
}

function toSigner(
  masterKey: MasterKey,
  { kid, name, public_key, sealed_private_key, created_at }: EvidenceKeyRow,
): Signer {
  const secret = openSecret(masterKey, locationOf(kid), sealed_private_key ?? '')
  const privateKey = createPrivateKey({ key: Buffer.from(secret, 'base64'), format: 'der', type: 'pkcs8' })
  return {
    kid,
    name,
    publicKey: Buffer.from(public_key, 'base64'),
    createdAtMs: Date.parse(created_at),
    sign: (text) => sign(null, Buffer.from(text), privateKey),
  }
}

/** The column of private keys, for a rotation of the master key. */
export const PRIVATE_KEY_COLUMN: SealedColumn = {
  table: 'evidence_keys',
  column: 'sealed_private_key',
  key: ['kid'],
  isShort: true,
  locationOf: ({ kid = '' }) => locationOf(kid),
}

const locationOf = (kid: string): SealedLocation => ({
  purpose: 'evidence-signing',
  table: 'evidence_keys',
  row: kid,
  tenant: '',
})

/** The 32 bytes of the public key: the end of its DER encoding (RFC 8410). */
const publicBytes = (privateKey: KeyObject): Buffer =>
  createPublicKey(privateKey).export({ format: 'der', type: 'spki' }).subarray(-32)

const toPublished = ({ kid, name, public_key, created_at, retired_at }: EvidenceKeyRow): PublishedKey => ({
  kid,
  name,
  publicKey: Buffer.from(public_key, 'base64'),
  createdAt: created_at,
  retiredAt: retired_at,
})
