/** Prints data to stdout in the chosen format. */
import { once } from 'node:events'
import { usageError } from '../errors.ts'
import type { Format } from '../input/global-flags.ts'
import type { Io } from '../io.ts'
import { writeTo } from '../io.ts'
import type { Settings } from '../profile/profile.ts'
import { createPainter, mayColour } from './colour.ts'
import {
  assertMembers,
  chooseColumns,
  chooseFields,
  getIdPath,
  toCsv,
  toFieldLines,
  toIdLines,
  toJson,
  toTsv,
  type View,
} from './formats.ts'
import { forTerminal, terminalText } from './terminal-text.ts'

/** The bytes of a response, for `--raw`. The value is undefined for data that is not from the API. */
type RawBody = Uint8Array | undefined

/** Only this object writes to stdout. Messages go to stderr through `CliContext.note`. */
export type Output = {
  /** Whether stdout is a terminal. If it is, control characters are removed from untrusted text. */
  terminal: boolean
  /**
   * Throws the usage error that printing would throw later. Commands call this function before they change anything.
   */
  assertShowable(view: View): void
  list(rows: object[], view: View, raw?: RawBody): Promise<void>
  one(row: object, view: View, raw?: RawBody): Promise<void>
  /** Prints one resource. If the chosen format has field names, prints the resource's fields, otherwise `text`. */
  textOrOne(text: string, row: object, view: View, raw?: RawBody): Promise<void>
  /** Prints text that is the result itself, such as a script or a unit file. */
  text(text: string): Promise<void>
  /** Prints a text that arrives in chunks. On a terminal, control characters are removed. */
  textStream(): (chunk: string) => Promise<void>
  /** Prints text unchanged. The text must not contain escape sequences except the program's own. */
  ownText(text: string): Promise<void>
  /** Prints bytes unchanged, even on a terminal. */
  bytes(bytes: Uint8Array): Promise<void>
}

type OutputSettings = Pick<Settings, 'format' | 'fields' | 'field' | 'raw' | 'headers' | 'color' | 'pager'>

/** Creates the output in the format that flags, environment and profile select. */
export function createOutput(io: Io, settings: OutputSettings): Output {
  const terminal = io.stdout.isTTY === true
  const format: Format = settings.format ?? 'table'
  const write = (data: string | Uint8Array) => writeTo(io.stdout, data)
  const painter = () => createPainter(mayColour({ flag: settings.color, env: io.env, isTerminal: terminal }))

  const show = async (value: object[] | object, view: View, raw: RawBody): Promise<void> => {
    if (settings.raw) {
      if (raw === undefined) throw usageError('--raw prints a response of the API, and this command has none')
      return write(raw)
    }
    if (settings.field !== undefined) {
      const lines = toFieldLines(value, settings.field)
      return write(terminal ? forTerminal(lines) : lines)
    }
    const rows: object[] = Array.isArray(value) ? value : [value]
    if (format === 'id') return write(toIdLines(rows, view))
    const columns = chooseColumns(rows, view, settings.fields)
    const chosen = settings.fields.length === 0 ? rows : rows.map((row) => chooseFields(row, columns))
    const whole = Array.isArray(value) ? chosen : (chosen[0] ?? {})
    if (format === 'json') return write(toJson(whole, { indent: 2, terminal }))
    if (format === 'ndjson') return write(chosen.map((row) => toJson(row, { indent: 0, terminal })).join(''))
    if (format === 'yaml') {
      const { stringify } = await import('yaml')
      const text = stringify(whole)
      return write(terminal ? forTerminal(text) : text)
    }
    if (format === 'csv') {
      const text = toCsv(rows, columns, settings.headers)
      return write(terminal ? forTerminal(text) : text)
    }
    if (format === 'tsv' || !terminal) {
      const text = toTsv(rows, columns, settings.headers)
      return write(terminal ? forTerminal(text) : text)
    }
    const { toCard, toTable } = await import('./table.ts')
    const now = io.clock.now()
    if (!Array.isArray(value)) return write(toCard(value, columns, { painter: await painter(), now }))
    if (rows.length === 0 && view.none !== undefined) return writeTo(io.stderr, `${view.none}\n`)
    const width = io.stdout.columns ?? 80
    const text = await toTable(rows, { columns, headers: settings.headers, width, painter: await painter(), now })
    return text.split('\n').length > (io.stdout.rows ?? Number.POSITIVE_INFINITY) && settings.pager !== undefined
      ? page(text, settings.pager, io)
      : write(text)
  }

  return {
    terminal,
    assertShowable(view) {
      if (settings.raw) return
      if (settings.field !== undefined) assertMembers(view, [settings.field])
      else if (format === 'id') getIdPath(view)
      else assertMembers(view, settings.fields)
    },
    list: show,
    one: show,
    textOrOne: (text, row, view, raw) => (isPlain(settings) ? printText(io, text) : show(row, view, raw)),
    text: (text) => printText(io, text),
    textStream() {
      if (!terminal) return write
      const filter = terminalText()
      return async (chunk) => {
        const shown = filter.push(chunk)
        if (shown !== '') await write(shown)
      }
    },
    ownText: write,
    bytes: write,
  }
}

/** Whether the chosen format has no field names, so that stdout may contain plain text such as a secret. */
export const isPlain = ({
  raw,
  field,
  fields,
  format = 'table',
}: Pick<Settings, 'raw' | 'field' | 'fields' | 'format'>): boolean =>
  !raw && field === undefined && fields.length === 0 && (format === 'table' || format === 'tsv')

/** Prints text that is the result itself, for commands without settings. */
export const printText = ({ stdout }: Pick<Io, 'stdout'>, text: string): Promise<void> =>
  writeTo(stdout, stdout.isTTY === true ? forTerminal(text) : text)

/** The shell's exit codes for a command that it cannot find or cannot run (POSIX, Exit Status for Commands). */
const NOT_STARTED = new Set([126, 127])

/**
 * Shows a long table in the user's pager. If the pager does not start, prints the table directly. Leaving the pager
 * early is not an error.
 */
async function page(text: string, command: string, io: Io): Promise<void> {
  const { spawn } = await import('node:child_process')
  const pager = spawn(command, { shell: true, stdio: ['pipe', 'inherit', 'inherit'], env: { LESS: 'FRX', ...io.env } })
  pager.stdin.on('error', () => {})
  pager.stdin.end(text)
  const [exitCode] = await once(pager, 'close')
  if (NOT_STARTED.has(exitCode)) await writeTo(io.stdout, text)
}
