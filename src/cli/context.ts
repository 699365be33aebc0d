import type { Command } from 'commander'
import type { Api } from './api/client.ts'
import type { GlobalFlags } from './input/global-flags.ts'
import type { Io, Note } from './io.ts'
import type { Output } from './output/output.ts'
import type { Settings } from './profile/profile.ts'

/**
 * The services of every command. Settings are loaded on first use, so commands that need no settings (`help`,
 * `completion`, `service unit`) work even if the configuration is invalid. `output`, `api` and `note` need settings.
 */
export type CliContext = {
  io: Io
  /** The program sets this member before a command's action runs. */
  globals: GlobalFlags
  /** The command that runs, once its flags are parsed. */
  command: Command | undefined
  /** Throws a usage error for an invalid configuration. */
  settings(): Promise<Settings>
  api(): Promise<Api>
  output(): Promise<Output>
  note: Note
  /** Asks for a confirmation on the terminal. Throws a usage error that names `--yes` if prompting is impossible. */
  confirm(question: string): Promise<void>
  /** Loads the whole command tree. */
  commandTree(): Promise<Command>
  /** Closes open connections, so that the process can end. */
  close(): Promise<void>
  /** The exit code is 0, unless a command sets it to the exit code of another process. */
  exitCode: number
}

/** Creates one command of the tree. Called only if the command line names the command. */
export type CommandFactory = (context: CliContext) => Command
