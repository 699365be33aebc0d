import type { ChainRow } from '../../shared/evidence/chain-check.ts'
import { LOG_COLUMNS, toCsvLine } from '../../shared/evidence/csv.ts'
import { findAtPath } from '../formats.ts'
import { parseJson } from './shapes.ts'

export const CSV_HEAD = toCsvLine(LOG_COLUMNS)

/** An entry as the compliance report has it (RFC 4180). An expunged one has no more than its id and time. */
export function toLogLine({ id, created_at, payload }: ChainRow): string {
  const said = payload === null ? undefined : parseJson(payload)
  const textAt = (path: string): string => String(findAtPath(said, path) ?? '')
  const actor = textAt('actor') === 'operator' ? 'operator' : textAt('user_id')
  const status = said === undefined ? 'EXPUNGED' : textAt('result') === 'success' ? 'SUCCESS' : 'ERROR'
  const event = said === undefined ? 'expunged' : textAt('type')
  return toCsvLine([id, created_at, event, actor, status, payload ?? ''])
}
