import { faultsMet } from './faults.ts'

faultsMet('in the words of others')
