import { sqliteEngine } from '../../engines.ts'
import { matrixOf } from './matrix.ts'

matrixOf(sqliteEngine, 'changes')
