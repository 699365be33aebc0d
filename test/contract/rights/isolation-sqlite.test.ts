import { sqliteEngine } from '../../engines.ts'
import { isolationOf } from './isolation.ts'

isolationOf(sqliteEngine)
