/** The log as CSV. */
import type { ChainRow } from '../../shared/evidence/chain-check.ts'
import { LOG_COLUMNS, toCsvLine } from '../../shared/evidence/csv.ts'
import { findAtPath } from '../output/formats.ts'
import { parseJson } from './shapes.ts'

export const CSV_HEAD = toCsvLine(LOG_COLUMNS)

/** Returns the payload of an entry, or undefined if it was expunged or is not JSON. */
export const contentsOf = ({ payload }: ChainRow): unknown => (payload === null ? undefined : parseJson(payload))

/** Formats an entry as a line of the compliance report (RFC 4180). An expunged entry has only its id and time. */
export const toLogLine = (row: ChainRow): string => logLineOf(row, contentsOf(row))

/** Like `toLogLine`, but expects a parsed payload. */
export function logLineOf({ id, created_at, payload }: ChainRow, content: unknown): string {
  const textAt = (path: string): string => String(findAtPath(content, path) ?? '')
  const actor = textAt('actor') === 'operator' ? 'operator' : textAt('user_id')
  const status = content === undefined ? 'EXPUNGED' : textAt('result') === 'success' ? 'SUCCESS' : 'ERROR'
  const event = content === undefined ? 'expunged' : textAt('type')
  return toCsvLine([id, created_at, event, actor, status, payload ?? ''])
}
