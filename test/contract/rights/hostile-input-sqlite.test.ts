import { sqliteEngine } from '../../engines.ts'
import { hostileInputOf } from './hostile-input.ts'

hostileInputOf(sqliteEngine)
