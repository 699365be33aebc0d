import { z } from 'zod'
import type { DatabaseOptions } from '../database.ts'
import { BackupError } from './backup-error.ts'

/** The first file of a backup. It describes the others. */
export const DESCRIPTION = 'backup.json'
/** The file with the SQLite database. */
export const SQLITE_FILE = 'aigw.db'
/** The file with the master key, if the operator asked for it. */
export const KEY_FILE = 'master.key'
/** The folder with the rows of PostgreSQL: `tables/NAME/PART`. */
export const TABLES = 'tables/'

const FORMAT = 1
const Name = z.string().regex(/^[a-z_][a-z0-9_]{0,62}$/)

/** The tables of PostgreSQL are listed in an order in which they can be restored. */
const Description = z.object({
  format: z.literal(FORMAT),
  engine: z.enum(['sqlite', 'postgres']),
  created_at: z.string(),
  version: z.string(),
  migrations: z.array(z.string()),
  tables: z.array(z.object({ name: Name, columns: z.array(Name) })).default([]),
})
export type BackupDescription = z.output<typeof Description>
export type CopiedTable = BackupDescription['tables'][number]

export const describeBackup = (description: Omit<z.input<typeof Description>, 'format'>): string =>
  JSON.stringify({ format: FORMAT, ...description })

/** @throws BackupError if another format or engine wrote the backup */
export function parseDescription(text: string, engine: DatabaseOptions['kind']): BackupDescription {
  const parsed = Description.safeParse(JSON.parse(text))
  if (!parsed.success)
    throw new BackupError(
      `The backup has a format that this version of aigwd does not know. Restore it with the version that made it.`,
      { cause: parsed.error },
    )
  if (parsed.data.engine !== engine) {
    const [of, into] = parsed.data.engine === 'sqlite' ? ['SQLite', 'PostgreSQL'] : ['PostgreSQL', 'SQLite']
    throw new BackupError(
      `This is a backup of ${of}, but the configuration names ${into}. A backup is restored into the same engine.`,
    )
  }
  return parsed.data
}
