import type { Tables } from '../db/tables.ts'
import type { SealedLocation } from './seal.ts'

/** A row of a table with encrypted texts: the columns of its primary key, and the encrypted text. */
export type SealedRow = Readonly<Record<string, string>>

/** A column that contains texts that are encrypted with the master key. Each module names its own columns. */
export type SealedColumn = {
  table: keyof Tables & string
  column: string
  /** The primary key. */
  key: readonly string[]
  /** If this column is 0, the text of the row is not encrypted. */
  flag?: string
  /** Only the row with this value in the first column of the primary key. */
  only?: string
  /** Whether each text is short and needed, so that a start of the daemon decrypts it to check it. */
  isShort?: boolean
  locationOf(row: SealedRow): SealedLocation
}
