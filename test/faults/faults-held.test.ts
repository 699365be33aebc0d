import { faultsMet } from './faults.ts'

faultsMet('held')
