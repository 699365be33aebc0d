import { sqliteEngine } from '../../engines.ts'
import { massAssignmentOf } from './mass-assignment.ts'

massAssignmentOf(sqliteEngine)
