import type { ChainRow } from '../../shared/evidence/chain-check.ts'
import { findAtPath } from '../formats.ts'
import { parseBody } from '../http-errors.ts'

export const CSV_HEAD = 'Entry ID,Timestamp,Event,Actor,Status,Details\r\n'

/** An entry as the compliance report has it (RFC 4180). An expunged one has no more than its id and time. */
export function toCsvLine({ id, created_at, payload }: ChainRow): string {
  const said = payload === null ? undefined : parseBody(Buffer.from(payload))
  const textAt = (path: string): string => String(findAtPath(said, path) ?? '')
  const actor = textAt('actor') === 'operator' ? 'operator' : textAt('user_id')
  const status = said === undefined ? 'EXPUNGED' : textAt('result') === 'success' ? 'SUCCESS' : 'ERROR'
  const event = said === undefined ? 'expunged' : textAt('type')
  return `${[id, created_at, event, actor, status, payload ?? ''].map(toCell).join(',')}\r\n`
}

/** What a spreadsheet would run as a formula is text for it too. */
const toCell = (text: string): string => {
  const harmless = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless
}
