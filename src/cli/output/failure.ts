/** Reports failures on stderr. */
import { DryRun } from '../api/client.ts'
import type { CliContext } from '../context.ts'
import {
  CliError,
  describeError,
  EXIT,
  errorAsJson,
  exitCodeOf,
  Interrupted,
  isClosedPipe,
  isFailedWrite,
  unwritable,
} from '../errors.ts'
import { withFlagName } from '../input/member-flags.ts'
import { writeTo } from '../io.ts'
import { createPainter, mayColour } from './colour.ts'
import { forTerminal, forTerminalLine } from './terminal-text.ts'

/** Prints the error to stderr and returns the exit code. */
export async function reportFailure(error: unknown, words: string[], context: CliContext): Promise<number> {
  const { io } = context
  // After a stop or a closed pipe, any other error is only a consequence of that event.
  const first: unknown = io.signal.aborted ? io.signal.reason : error
  if (isClosedPipe(first) || first instanceof Interrupted) return exitCodeOf(first)
  const cause = isFailedWrite(first) ? unwritable('the output', first) : withFlagName(first, context.command)
  if (cause instanceof DryRun) {
    try {
      const [settings, { createOutput }] = await Promise.all([context.settings(), import('./output.ts')])
      // Ignores `-o id` with `--dry-run`, because the printed request has no id.
      const format = settings.format === 'id' ? undefined : settings.format
      await createOutput(io, { ...settings, format }).one(cause.request, DRY_RUN_VIEW)
      return EXIT.ok
    } catch (failure) {
      return reportFailure(failure, words, context)
    }
  }
  await writeTo(io.stderr, await formatFailure(cause, words, context)).catch(() => {})
  return exitCodeOf(cause)
}

const DRY_RUN_VIEW = {
  columns: [{ path: 'method' }, { path: 'url' }, { path: 'headers' }, { path: 'body' }],
}

async function formatFailure(error: unknown, words: string[], context: CliContext): Promise<string> {
  const { io } = context
  if (await wantsJson(words, context)) return `${errorAsJson(error)}\n`
  const painter = await createPainter(
    mayColour({ flag: context.globals.color, env: io.env, isTerminal: io.stderr.isTTY === true }),
  )
  const [what = '', ...lines] = describeError(error).map(error instanceof CliError ? forTerminalLine : forTerminal)
  const marked = what.replace(/^(internal )?error:/, (mark) => painter.red(mark))
  return [marked, ...lines].map((line) => `${line}\n`).join('')
}

/** Also works if invalid flags or an invalid configuration prevent loading the settings. */
async function wantsJson(words: string[], context: CliContext): Promise<boolean> {
  const settings = await context.settings().catch(() => undefined)
  if (settings?.format !== undefined) return settings.format === 'json' || settings.format === 'ndjson'
  const flags = words.includes('--') ? words.slice(0, words.indexOf('--')) : words
  const given = flags.some(
    (word, at) =>
      word === '--json' ||
      /^(-o|--output=)(nd)?json$/.test(word) ||
      ((word === '-o' || word === '--output') && /^(nd)?json$/.test(flags[at + 1] ?? '')),
  )
  return given || /^(nd)?json$/.test(context.io.env.AIGW_OUTPUT ?? '')
}
