import type { Command } from 'commander'
import { PAST_FORMS, toPast } from '../../input/past-time.ts'

export const INCIDENTS_PATH = '/api/admin/incidents'

export type PeriodFlags = { since?: string; until?: string }

export const addPeriodOptions = (command: Command): Command =>
  command
    .option('--since <when>', `only those from then on: ${PAST_FORMS}`)
    .option('--until <when>', 'only those up to then; the same forms')

/** The flags as the gateway takes them. Throws a usage error for what is no time. */
export const toPeriod = ({ since, until }: PeriodFlags, nowMs: number) => ({
  startDate: since === undefined ? undefined : toPast(since, '--since', nowMs),
  endDate: until === undefined ? undefined : toPast(until, '--until', nowMs),
})
