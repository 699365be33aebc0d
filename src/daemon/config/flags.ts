import { parseArgs } from 'node:util'
import { suggestion } from '../../shared/nearest-name.ts'

/** The daemon's command-line flags, with unparsed values. Values are validated when all sources are merged. */
export type Flags = {
  config: string | undefined
  listen: string | undefined
  dataDir: string | undefined
  check: boolean
  help: boolean
  version: boolean
}

export const USAGE = `Usage: aigwd [options]
       aigwd db VERB [options]

Runs the aigw gateway. \`aigwd db --help\` describes the work on its store.

Options:
  --config FILE       configuration file            AIGW_CONFIG    (/etc/aigw/aigw.yaml when it exists)
  --listen HOST:PORT  address to listen on           AIGW_LISTEN    (127.0.0.1:8787; port 0 picks a free one)
  --data-dir DIR      directory for state           AIGW_DATA_DIR  (~/.local/state/aigw)
  --check             validate the configuration and exit: 0 if it is valid, 78 if not
  -h, --help          show this text
  -V, --version       show the version
`

const OPTIONS = {
  config: { type: 'string' },
  listen: { type: 'string' },
  'data-dir': { type: 'string' },
  check: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean', short: 'V' },
} as const

const isOption = (name: string): name is keyof typeof OPTIONS => Object.hasOwn(OPTIONS, name)

/** Parses the command line and reports all faults. If a flag is repeated, the last value applies. */
export function parseFlags(argv: readonly string[]): { flags: Flags; faults: string[] } {
  const { tokens } = parseArgs({ args: [...argv], options: OPTIONS, strict: false, tokens: true })
  const faults: string[] = []
  const values = new Map<string, string>()
  let unknownAt = -2
  for (const token of tokens) {
    // A word after an unknown option is most likely the option's value, so it is not reported.
    if (token.kind === 'positional' && token.index !== unknownAt + 1)
      faults.push(`"${token.value}" is not expected; aigwd takes options only, see --help`)
    if (token.kind !== 'option') continue
    if (!isOption(token.name)) {
      unknownAt = token.index
      faults.push(`${token.rawName}: unknown option${suggestion(token.name, Object.keys(OPTIONS), '--')}; see --help`)
    } else if (OPTIONS[token.name].type === 'boolean') {
      if (token.value !== undefined) faults.push(`${token.rawName}: takes no value`)
      values.set(token.name, '')
    } else if (!token.value || (token.value.startsWith('-') && token.inlineValue === false)) {
      faults.push(`${token.rawName}: needs a value; see --help`)
    } else {
      values.set(token.name, token.value)
    }
  }
  return {
    flags: {
      config: values.get('config'),
      listen: values.get('listen'),
      dataDir: values.get('data-dir'),
      check: values.has('check'),
      help: values.has('help'),
      version: values.has('version'),
    },
    faults,
  }
}
