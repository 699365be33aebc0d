import type { ChainRow } from '../../shared/evidence/chain-check.ts'
import { LOG_COLUMNS, toCsvLine } from '../../shared/evidence/csv.ts'
import { findAtPath } from '../output/formats.ts'
import { parseJson } from './shapes.ts'

export const CSV_HEAD = toCsvLine(LOG_COLUMNS)

/** What an entry says; undefined for one that was expunged, or whose payload is no JSON. */
export const contentsOf = ({ payload }: ChainRow): unknown => (payload === null ? undefined : parseJson(payload))

/** An entry as the compliance report has it (RFC 4180). An expunged one has no more than its id and time. */
export const toLogLine = (row: ChainRow): string => logLineOf(row, contentsOf(row))

/** The same of an entry whose contents are known. */
export function logLineOf({ id, created_at, payload }: ChainRow, said: unknown): string {
  const textAt = (path: string): string => String(findAtPath(said, path) ?? '')
  const actor = textAt('actor') === 'operator' ? 'operator' : textAt('user_id')
  const status = said === undefined ? 'EXPUNGED' : textAt('result') === 'success' ? 'SUCCESS' : 'ERROR'
  const event = said === undefined ? 'expunged' : textAt('type')
  return toCsvLine([id, created_at, event, actor, status, payload ?? ''])
}
