import type { Command } from 'commander'
import type { Clock } from '../shared/time.ts'
import type { Api } from './api/client.ts'
import type { GlobalFlags } from './input/global-flags.ts'
import type { Output } from './output/output.ts'
import type { Settings } from './profile/profile.ts'

/** The process as a command sees it; tests hand in their own. */
export type Io = {
  stdin: NodeJS.ReadableStream & { isTTY?: boolean; fd?: number; setRawMode?(on: boolean): unknown }
  stdout: NodeJS.WritableStream & { isTTY?: boolean; columns?: number; rows?: number }
  stderr: NodeJS.WritableStream & { isTTY?: boolean; columns?: number }
  env: Record<string, string | undefined>
  clock: Clock
  /** Signals sent to this process, for a command that passes them on. */
  signals: Signals
  /** Aborted by SIGINT, SIGTERM or a closed stdout; its reason says which. */
  signal: AbortSignal
}

type Signals = {
  on(name: NodeJS.Signals, listener: (name: NodeJS.Signals) => void): unknown
  off(name: NodeJS.Signals, listener: (name: NodeJS.Signals) => void): unknown
}

/**
 * Passed to every command. Settings are read when first asked for, so what needs none (`help`, `completion`,
 * `service unit`) works whatever the configuration says; `output`, `api` and `note` need them.
 */
export type CliContext = {
  io: Io
  /** Set by the program before a command's action runs. */
  globals: GlobalFlags
  /** Throws a usage error for a configuration that does not hold. */
  settings(): Promise<Settings>
  api(): Promise<Api>
  output(): Promise<Output>
  /** One line on stderr for the person watching, or the `lines` that the text has; nothing with `-q`. */
  note(text: string, options?: { lines: boolean }): Promise<void>
  /** Asks on the terminal; throws a usage error that names `--yes` where nobody can answer. */
  confirm(question: string): Promise<void>
  /** Ends what is still open, so that the program can. */
  close(): Promise<void>
  /** Set by a command that answers with somebody else's exit code. */
  exitCode: number
}

/** Makes one command of the tree; it is called only when a line of words leads there. */
export type CommandFactory = (context: CliContext) => Command

/** A context whose parts load on first use and are then shared. */
export function createContext(io: Io, { managesProfiles }: { managesProfiles: boolean }): CliContext {
  let settings: Promise<Settings> | undefined
  let api: Promise<Api> | undefined
  let output: Promise<Output> | undefined
  const context: CliContext = {
    io,
    globals: {},
    exitCode: 0,
    settings: () => {
      settings ??= import('./profile/profile.ts').then(({ loadSettings }) =>
        loadSettings(context.globals, io, { mayBeNew: managesProfiles }),
      )
      return settings
    },
    api: () => {
      api ??= Promise.all([import('./api/client.ts'), context.settings()]).then(([{ createApi }, known]) =>
        createApi({ settings: known, io, note: context.note }),
      )
      return api
    },
    output: () => {
      output ??= Promise.all([import('./output/output.ts'), context.settings()]).then(([{ createOutput }, known]) =>
        createOutput(io, known),
      )
      return output
    },
    async note(text, { lines } = { lines: false }) {
      if ((await context.settings()).quiet) return
      const { forTerminal, forTerminalLine } = await import('./output/terminal-text.ts')
      io.stderr.write(`${lines ? forTerminal(text) : forTerminalLine(text)}\n`)
    },
    async close() {
      const opened = await api?.catch(() => undefined)
      opened?.close()
    },
    async confirm(question) {
      const { assertConfirmed } = await import('./input/prompt.ts')
      await assertConfirmed(question, await context.settings(), io)
    },
  }
  return context
}
