/** The commands of the store. They run `aigwd db` on this machine, and show its report. */
import { Command } from 'commander'
import type { CliContext, CommandFactory } from '../../context.ts'
import { columns, flexible, type View } from '../../output/formats.ts'
import { type DbFlags, runStoreCommand } from './store-process.ts'

const DAEMON_RUNS = 'The daemon may keep running.'
const DAEMON_STOPS = 'With SQLite, stop the daemon first.'

const toBase = (name: string, description: string): Command =>
  new Command(name)
    .description(
      `${description}\nWorks on the store of this machine's configuration, without a key. Run it as the user of the daemon.`,
    )
    .option('--config <file>', 'configuration file (AIGW_CONFIG)')
    .option('--data-dir <dir>', 'directory of the store (AIGW_DATA_DIR)')

const collect = (value: string, previous: string[] = []): string[] => [...previous, value]

function reporting(view: View, { name, words = [] }: { name: string; words?: string[] }) {
  return async (context: CliContext, flags: DbFlags) => {
    const output = await context.output()
    output.assertShowable(view)
    const { report, exitCode } = await runStoreCommand(context.io, name, flags, words)
    await output.one(report, view)
    context.exitCode = exitCode
  }
}

const STATUS_VIEW: View = {
  columns: columns(
    { ENGINE: 'engine', STORE: flexible('store'), BYTES: 'bytes', MIGRATION: 'migration' },
    { PENDING: 'pending', BACKUPS: flexible('backups') },
  ),
}
const CHECK_VIEW: View = {
  columns: columns({ CHECK: 'check', OF: flexible('of'), PROBLEM: flexible('problem') }),
}
const BACKUP_VIEW: View = {
  idPath: 'file',
  columns: columns(
    { FILE: flexible('file'), BYTES: 'bytes', ENCRYPTION: 'encryption', 'MASTER KEY': 'master_key' },
    { CREATED: 'created_at', REMOVED: flexible('removed') },
  ),
}
const RESTORE_VIEW: View = {
  columns: columns(
    { 'MADE AT': 'created_at', CHAINS: 'chains', REPLACED: flexible('replaced') },
    { 'MASTER KEY': 'master_key', PROBLEMS: flexible('problems') },
  ),
}
const MIGRATE_VIEW: View = { columns: columns({ MIGRATED: flexible('migrated'), BACKUP: flexible('backup') }) }
const PRUNE_VIEW: View = {
  columns: columns({ 'DELETED ROWS': 'deleted_rows', 'DELETED FILES': flexible('deleted_files') }, { AT: 'pruned_at' }),
}
const VACUUM_VIEW: View = { columns: columns({ BEFORE: 'bytes_before', BYTES: 'bytes' }) }

export const commands: Record<
  'status' | 'check' | 'backup' | 'restore' | 'migrate' | 'prune' | 'vacuum',
  CommandFactory
> = {
  status: (context) =>
    toBase('status', `Show the size, the migrations and the backups of the store. ${DAEMON_RUNS}`).action(
      (flags: DbFlags) => reporting(STATUS_VIEW, { name: 'status' })(context, flags),
    ),
  check: (context) =>
    toBase(
      'check',
      `Check the store, its references, every entry of every log, and the bills. ${DAEMON_RUNS}\nExit 0 if all is in order, else 10.`,
    ).action(async (flags: DbFlags) => {
      const output = await context.output()
      output.assertShowable(CHECK_VIEW)
      const { report, exitCode } = await runStoreCommand(context.io, 'check', flags)
      await output.list((report as { findings?: object[] }).findings ?? [], CHECK_VIEW)
      context.exitCode = exitCode
    }),
  backup: (context) =>
    toBase('backup', `Copy the store into one compressed and encrypted file. ${DAEMON_RUNS}`)
      .argument('<to>', 'a directory, or - for stdout')
      .option('--recipient <age1…>', 'encrypt for this recipient of age; repeatable', collect)
      .option('--passphrase-file <file>', 'encrypt with the first line of this file (AIGW_BACKUP_PASSPHRASE)')
      .option('--unencrypted', 'do not encrypt')
      .option('--with-master-key', 'include the master key, which decrypts the secrets of the store')
      .option('--keep <n>', 'delete all but the newest n backups of the directory')
      .addHelpText('after', '\nExample:\n  aigw db backup /backup --recipient age1… --keep 7')
      .action(async (to: string, flags: DbFlags) => {
        if (to !== '-') return reporting(BACKUP_VIEW, { name: 'backup', words: ['--to', to] })(context, flags)
        const { exitCode } = await runStoreCommand(context.io, 'backup', flags, ['--to', '-'])
        context.exitCode = exitCode
      }),
  restore: (context) =>
    toBase(
      'restore',
      'Verify a backup, and then replace the store with it. SQLite needs a stopped daemon, and keeps the current store\n' +
        'aside. PostgreSQL needs an empty database. If the backup is damaged, nothing changes.',
    )
      .argument('<from>', 'the backup, or - for stdin')
      .option('--passphrase-file <file>', 'decrypt with the first line of this file (AIGW_BACKUP_PASSPHRASE)')
      .option('--identity <file>', 'decrypt with the identities of this file of age; repeatable', collect)
      .option('--accept-problems', 'restore also if the log of the backup is invalid')
      .addHelpText(
        'after',
        '\nExample:\n  aigw db restore /backup/aigw-backup-20260101T000000000Z.tar.gz.age --identity key.txt',
      )
      .action((from: string, flags: DbFlags) =>
        reporting(RESTORE_VIEW, { name: 'restore', words: ['--from', from] })(context, flags),
      ),
  migrate: (context) =>
    toBase(
      'migrate',
      `Migrate the store to this version, after a backup if it is SQLite. The daemon also does this at its start.\n${DAEMON_STOPS} With PostgreSQL, stop all daemons.`,
    ).action((flags: DbFlags) => reporting(MIGRATE_VIEW, { name: 'migrate' })(context, flags)),
  prune: (context) =>
    toBase(
      'prune',
      `Delete at once what the daemon would delete in time, and the stores that restores have kept aside. ${DAEMON_STOPS}`,
    ).action((flags: DbFlags) => reporting(PRUNE_VIEW, { name: 'prune' })(context, flags)),
  vacuum: (context) =>
    toBase('vacuum', `Return unused space to the disk. ${DAEMON_STOPS}`).action((flags: DbFlags) =>
      reporting(VACUUM_VIEW, { name: 'vacuum' })(context, flags),
    ),
}
