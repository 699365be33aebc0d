import type { Kysely } from 'kysely'
import type { Log } from '../log.ts'
import type { Tables } from './tables.ts'

/** The store. A transaction has the same type, so a function that takes a `Db` can run inside either. */
export type Db = Kysely<Tables>

export type StoreLog = Pick<Log, 'error'>
