import type { Ora } from 'ora'
import type { Timer } from '../../shared/time.ts'
import type { Io } from '../io.ts'
import type { Settings } from '../profile/profile.ts'

/** A shorter wait shows no spinner. */
const DELAY_MS = 300

export type Progress = {
  /** Replaces the line. */
  show(text: string): void
  end(): void
}

const SILENT: Progress = { show: () => {}, end: () => {} }

/**
 * Shows a spinner with one line on stderr, after 300 ms. Shows no spinner in CI, without a terminal, or with `-o json`,
 * `-q` or a trace.
 */
export function createProgress(io: Io, settings: Settings): Progress {
  const { quiet, format, verbose, debug } = settings
  const forMachines = format === 'json' || format === 'ndjson' || (io.env.CI ?? '') !== ''
  if (io.stderr.isTTY !== true || quiet || verbose || debug || forMachines) return SILENT
  let text = ''
  let spinner: Ora | undefined
  let ended = false
  const timer: Timer = io.clock.after(DELAY_MS, async () => {
    const { default: ora } = await import('ora')
    // With the default of this option, ora would read the terminal's input and handle Ctrl-C.
    if (!ended) spinner = ora({ text, stream: io.stderr, discardStdin: false, isEnabled: true }).start()
  })
  return {
    show(next) {
      text = next
      if (spinner !== undefined) spinner.text = next
    },
    end() {
      ended = true
      timer.cancel()
      spinner?.stop()
      // Calling `stop` twice would overwrite the current line.
      spinner = undefined
    },
  }
}
