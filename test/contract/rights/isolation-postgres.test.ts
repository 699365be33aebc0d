import { postgresEngine } from '../../engines.ts'
import { isolationOf } from './isolation.ts'

isolationOf(postgresEngine)
