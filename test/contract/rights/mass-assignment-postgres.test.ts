import { postgresEngine } from '../../engines.ts'
import { massAssignmentOf } from './mass-assignment.ts'

massAssignmentOf(postgresEngine)
