import { postgresEngine } from '../../engines.ts'
import { matrixOf } from './matrix.ts'

matrixOf(postgresEngine, 'changes')
