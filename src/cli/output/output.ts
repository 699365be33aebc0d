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
  toFieldLines,
  toIdLines,
  toJson,
  toTsv,
  type View,
} from './formats.ts'
import { forTerminal, terminalText } from './terminal-text.ts'

/** The bytes of an API answer, for `--raw`; absent for what never came from the API. */
type RawBody = Uint8Array | undefined

/** The one owner of stdout. Everything that is not data goes to stderr through `CliContext.note`. */
export type Output = {
  /** Whether stdout is a terminal, where text of others is made harmless first. */
  terminal: boolean
  /** Throws the usage error that showing would throw; for commands that change something before they show it. */
  assertShowable(view: View): void
  list(rows: object[], view: View, raw?: RawBody): Promise<void>
  one(row: object, view: View, raw?: RawBody): Promise<void>
  /** Text that is data itself, such as a script or a unit file. */
  text(text: string): Promise<void>
  /** Starts a text that arrives in pieces: harmless on a terminal, exact everywhere else. */
  textStream(): (chunk: string) => Promise<void>
  /** Text that holds sequences of ours and none of others, exactly. */
  ownText(text: string): Promise<void>
  /** Bytes exactly as they came, also on a terminal. */
  bytes(bytes: Uint8Array): Promise<void>
}

type OutputSettings = Pick<Settings, 'format' | 'fields' | 'field' | 'raw' | 'headers' | 'color' | 'pager'>

/** Output in the format that flags, environment and profile ask for. */
export function createOutput(io: Io, settings: OutputSettings): Output {
  const terminal = io.stdout.isTTY === true
  const format: Format = settings.format ?? 'table'
  const write = (data: string | Uint8Array) => writeTo(io.stdout, data)
  const painter = () => createPainter(mayColour({ flag: settings.color, env: io.env, isTerminal: terminal }))

  const show = async (value: object[] | object, view: View, raw: RawBody): Promise<void> => {
    if (settings.raw) {
      if (raw === undefined) throw usageError('--raw needs an answer of the API, and this command makes none')
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
    if (format === 'tsv' || !terminal) {
      const text = toTsv(rows, columns, settings.headers)
      return write(terminal ? forTerminal(text) : text)
    }
    const { toCard, toTable } = await import('./table.ts')
    if (!Array.isArray(value)) return write(toCard(value, columns, await painter()))
    if (rows.length === 0 && view.none !== undefined) return writeTo(io.stderr, `${view.none}\n`)
    const width = io.stdout.columns ?? 80
    const text = await toTable(rows, { columns, headers: settings.headers, width, painter: await painter() })
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

/** Whether no format with names was asked for, so that stdout can be one text, such as a secret, and nothing else. */
export const isPlain = ({
  raw,
  field,
  fields,
  format = 'table',
}: Pick<Settings, 'raw' | 'field' | 'fields' | 'format'>): boolean =>
  !raw && field === undefined && fields.length === 0 && (format === 'table' || format === 'tsv')

/** Text that is data itself, for commands that work without any settings. */
export const printText = ({ stdout }: Pick<Io, 'stdout'>, text: string): Promise<void> =>
  writeTo(stdout, stdout.isTTY === true ? forTerminal(text) : text)

/** What a shell exits with when it finds the command, or may run it, not at all (POSIX, Exit Status for Commands). */
const NOT_STARTED = new Set([126, 127])

/** Shows a long table through the user's pager. One that is left early is no failure; one that does not start shows nothing. */
async function page(text: string, command: string, io: Io): Promise<void> {
  const { spawn } = await import('node:child_process')
  const pager = spawn(command, { shell: true, stdio: ['pipe', 'inherit', 'inherit'], env: { LESS: 'FRX', ...io.env } })
  pager.stdin.on('error', () => {})
  pager.stdin.end(text)
  const [exitCode] = await once(pager, 'close')
  if (NOT_STARTED.has(exitCode)) await writeTo(io.stdout, text)
}
