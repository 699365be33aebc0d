import { faultsMet } from './faults.ts'

faultsMet('whole')
