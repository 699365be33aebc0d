import type { Ora } from 'ora'
import type { Timer } from '../../shared/time.ts'
import type { Io } from '../io.ts'
import type { Settings } from '../profile/profile.ts'

const PATIENCE_MS = 300

export type Progress = {
  /** Replaces the line. */
  show(text: string): void
  end(): void
}

const SILENT: Progress = { show: () => {}, end: () => {} }

/**
 * One counted line with a spinner on stderr, for people only: on a terminal, after 300 ms, and neither in CI nor with
 * `-q`, `-o json` or a trace that it would tear apart.
 */
export function createProgress(io: Io, settings: Settings): Progress {
  const { quiet, format, verbose, debug } = settings
  const forMachines = format === 'json' || format === 'ndjson' || (io.env.CI ?? '') !== ''
  if (io.stderr.isTTY !== true || quiet || verbose || debug || forMachines) return SILENT
  let text = ''
  let spinner: Ora | undefined
  let ended = false
  const timer: Timer = io.clock.after(PATIENCE_MS, async () => {
    const { default: ora } = await import('ora')
    // Ctrl-C stays ours: ora would otherwise take the terminal's input.
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
      // Once is enough: another stop would move the cursor back to the begin of a line that holds text by now.
      spinner = undefined
    },
  }
}
