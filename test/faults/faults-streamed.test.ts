import { faultsMet } from './faults.ts'

faultsMet('streamed')
