import { postgresEngine } from '../../engines.ts'
import { hostileInputOf } from './hostile-input.ts'

hostileInputOf(postgresEngine)
