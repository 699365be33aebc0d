import type { Command } from 'commander'
import type { Api } from './api/client.ts'
import type { CliContext } from './context.ts'
import type { Io } from './io.ts'
import type { Output } from './output/output.ts'
import type { Settings } from './profile/profile.ts'

type ContextOptions = {
  /** The selected profile need not exist, because the command manages saved profiles. */
  managesProfiles: boolean
  commandTree(context: CliContext): Promise<Command>
}

/** Creates a context. Settings, client and output are created on first use and then reused. */
export function createContext(io: Io, { managesProfiles, commandTree }: ContextOptions): CliContext {
  let settings: Promise<Settings> | undefined
  let api: Promise<Api> | undefined
  let output: Promise<Output> | undefined
  const context: CliContext = {
    io,
    globals: {},
    command: undefined,
    exitCode: 0,
    commandTree: () => commandTree(context),
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
