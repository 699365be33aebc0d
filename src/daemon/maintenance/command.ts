// `aigwd db VERB`: works on the store itself, without a daemon. `aigw db` runs it and shows its report.
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { setPriority } from 'node:os'
import { join, resolve } from 'node:path'
import type { Writable } from 'node:stream'
import { isoTime, systemClock } from '../../shared/time.ts'
import type { Config } from '../config/config.ts'
import { writeArchive } from '../platform/db/backup/archive.ts'
import { BackupError } from '../platform/db/backup/backup-error.ts'
import { backupName, keepNewest, writeWhole } from '../platform/db/backup/backup-file.ts'
import type { Decryption, Encryption } from '../platform/db/backup/encryption.ts'
import { withSqliteCopy } from '../platform/db/backup/sqlite-backup.ts'
import { addMasterKey, addPostgresStore, addSqliteStore } from '../platform/db/backup/store-backup.ts'
import { migrationState } from '../platform/db/migrate.ts'
import { checkStore, problemsIn } from './check.ts'
import { type DbCommandDeps, type DbContext, parseDbFlags, UsageError, withStore } from './context.ts'
import { exportKeyOf } from './key-of-backup.ts'
import { migrateStore, pruneStore, vacuumStore } from './maintain.ts'
import { restorePostgres } from './restore-postgres.ts'
import { readSecretText, restoreSqlite } from './restore-sqlite.ts'
import { storeStatus } from './status.ts'

export const DB_USAGE = `Usage: aigwd db VERB [options]

Works on the store of the configuration.

Verbs:
  status    size, migrations and backups of the store
  check     check the store, its references, its evidence and its bills: exit 10 if something is wrong
  backup    copy the store while the daemon runs
  restore   replace a stopped SQLite store, or fill an empty PostgreSQL database
  migrate   migrate the store to this version; needs a stopped daemon
  prune     delete what has expired; SQLite needs a stopped daemon
  vacuum    return unused space to the disk; SQLite needs a stopped daemon

Options:
  --config FILE, --data-dir DIR     as of aigwd
  --to PATH            backup: a directory, or - for stdout
  --keep N             backup: delete all but the newest N backups of the directory
  --recipient age1…    backup: encrypt for this recipient; repeatable
  --passphrase-file F  backup, restore: the first line is the passphrase (AIGW_BACKUP_PASSPHRASE)
  --unencrypted        backup: do not encrypt
  --with-master-key    backup: include the master key
  --from FILE          restore: the backup, or - for stdin
  --identity FILE      restore: identities of age; repeatable
  --accept-problems    restore: also restore a store whose log is invalid
`

/** The exit code of a check that found a problem, as of `aigw audit verify`. */
const EXIT_PROBLEM = 10
/** Requests of a running daemon come first. */
const LOW_PRIORITY = 10
const PREFIX = 'aigw-backup'

type Report = { ok?: boolean; [member: string]: unknown }

const VERBS: Record<string, (context: DbContext) => Promise<Report>> = {
  status: (context) => withStore(context, (db) => storeStatus(db, context.config)),
  check: (context) =>
    withStore(context, async (db) => {
      const findings = await checkStore(db, context.clock, new AbortController().signal)
      return { ok: problemsIn(findings).length === 0, findings }
    }),
  backup,
  restore,
  migrate: migrateStore,
  prune: pruneStore,
  vacuum: vacuumStore,
}

/** Runs one verb. Returns the exit code. @throws Error whose message is for the operator */
export async function runDbCommand(argv: readonly string[], { load, ...deps }: DbCommandDeps): Promise<number> {
  let parsed: ReturnType<typeof parseDbFlags>
  try {
    parsed = parseDbFlags(argv)
  } catch (cause) {
    throw new UsageError((cause as Error).message, { cause })
  }
  const { values: flags, positionals } = parsed
  const [verb = '', ...rest] = positionals
  const run = Object.hasOwn(VERBS, verb) ? VERBS[verb] : undefined
  if (run === undefined || rest.length > 0)
    throw new UsageError(
      `"${positionals.join(' ')}" is not one of: ${Object.keys(VERBS).join(', ')}. See aigwd db --help.`,
    )
  const config = load(
    [
      ['--config', flags.config],
      ['--data-dir', flags['data-dir']],
    ].flatMap(([name, value]) => (value === undefined ? [] : [name as string, value])),
  )
  await requireOwner(config)
  const report = await run({ ...deps, config, flags, clock: deps.clock ?? systemClock })
  if (flags.to !== '-') deps.stdout.write(`${JSON.stringify(report)}\n`)
  return report.ok === false ? EXIT_PROBLEM : 0
}

/** Files of another user in the directory of the store would stop the daemon. @throws BackupError */
async function requireOwner({ dataDir, database }: Config): Promise<void> {
  if (database.kind !== 'sqlite') return
  const owner = (await stat(dataDir).catch(() => undefined))?.uid
  if (owner !== undefined && owner !== process.getuid?.())
    throw new BackupError(
      `${dataDir} belongs to the user with the id ${owner}. Run this command as that user: sudo -u '#${owner}' aigw db …`,
    )
}

async function backup(context: DbContext): Promise<Report> {
  const { config, flags, clock, stdout } = context
  const { to } = flags
  if (to === undefined) throw new UsageError('--to is missing: name a directory, or - for stdout.')
  const encryption = await encryptionOf(context)
  const keep = flags.keep === undefined ? undefined : Number(flags.keep)
  if (keep !== undefined && !(Number.isInteger(keep) && keep > 0))
    throw new UsageError(`--keep ${flags.keep}: must be a whole number from 1.`)
  setPriority(LOW_PRIORITY)
  const created_at = isoTime(clock.now())
  // Before any file is written.
  const key = flags['with-master-key'] ? await withStore(context, (db) => exportKeyOf(db, config)) : undefined
  const write = async (out: Writable) => {
    const { database } = config
    const addKey = async (add: Parameters<typeof addMasterKey>[0]) => {
      if (key !== undefined) await addMasterKey(add, key)
    }
    if (database.kind === 'postgres')
      return writeArchive(out, encryption, async (add) => {
        await addPostgresStore(add, { url: database.url, created_at })
        await addKey(add)
      })
    const { applied } = await withStore(context, migrationState)
    await withSqliteCopy(config.dataDir, (copy) =>
      writeArchive(out, encryption, async (add) => {
        await addSqliteStore(add, { copy, migrations: applied, created_at })
        await addKey(add)
      }),
    )
  }
  if (to === '-') {
    await write(stdout)
    return {}
  }
  const directory = resolve(to)
  const name = backupName(PREFIX, created_at, encryption.kind !== 'none')
  const bytes = await writeWhole(join(directory, name), write)
  const removed = keep === undefined ? [] : await keepNewest(directory, PREFIX, keep)
  const master_key = key !== undefined
  return { file: join(directory, name), bytes, encryption: encryption.kind, master_key, created_at, removed }
}

async function encryptionOf({ flags, env }: DbContext): Promise<Encryption> {
  const recipients = flags.recipient ?? []
  const passphrase = await passphraseOf({ flags, env })
  const ways = [recipients.length > 0, passphrase !== undefined, flags.unencrypted === true].filter(Boolean)
  if (ways.length !== 1)
    throw new UsageError(
      'A backup contains all data of all tenants. Choose one: --recipient age1…, or AIGW_BACKUP_PASSPHRASE or --passphrase-file FILE, or --unencrypted.',
    )
  if (passphrase !== undefined) return { kind: 'passphrase', passphrase }
  return recipients.length > 0 ? { kind: 'recipients', recipients } : { kind: 'none' }
}

async function passphraseOf({ flags, env }: Pick<DbContext, 'flags' | 'env'>): Promise<string | undefined> {
  const file = flags['passphrase-file']
  if (file === undefined) return env.AIGW_BACKUP_PASSPHRASE || undefined
  const [line = ''] = (await readSecretText(file)).split(/\r?\n/)
  if (line === '') throw new BackupError(`${file} contains no passphrase: its first line is empty.`)
  return line
}

async function restore({ config, flags, env, clock, stdin }: DbContext): Promise<Report> {
  const { from } = flags
  if (from === undefined) throw new UsageError('--from is missing: name a backup, or - for stdin.')
  const decryption: Decryption = {
    passphrase: await passphraseOf({ flags, env }),
    identities: (await Promise.all((flags.identity ?? []).map(readSecretText))).flatMap((text) =>
      text.split(/\r?\n/).filter((line) => line !== '' && !line.startsWith('#')),
    ),
  }
  if (from !== '-')
    await stat(from).catch((cause) => {
      throw new BackupError(`There is no backup ${from}.`, { cause })
    })
  const source = from === '-' ? stdin : createReadStream(from)
  const deps = { config, source, decryption, acceptProblems: flags['accept-problems'] === true, clock }
  const restored =
    config.database.kind === 'postgres'
      ? await restorePostgres({ ...deps, url: config.database.url })
      : await restoreSqlite(deps)
  const { checked, ...rest } = restored
  return { ...rest, chains: checked.filter(({ check }) => check === 'chain').length, problems: problemsIn(checked) }
}
