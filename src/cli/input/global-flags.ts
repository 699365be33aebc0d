/** The global flags, accepted before and after the command. */
import { type Command, Option } from 'commander'

export const FORMATS = ['table', 'json', 'ndjson', 'yaml', 'tsv', 'csv', 'id'] as const
export type Format = (typeof FORMATS)[number]

/** The values of the global flags. */
export type GlobalFlags = {
  profile?: string
  baseUrl?: string
  apiKeyFile?: string
  output?: string
  json?: boolean
  fields?: string
  field?: string
  raw?: boolean
  headers?: boolean
  quiet?: boolean
  verbose?: boolean
  debug?: boolean
  yes?: boolean
  input?: boolean
  dryRun?: boolean
  color?: string
  pager?: boolean
  timeout?: string
  retries?: string
}

const globalOptions = (): Option[] => [
  new Option('-P, --profile <name>', 'profile to use (AIGW_PROFILE)'),
  new Option('--base-url <url>', 'gateway address (AIGW_BASE_URL)'),
  new Option('--api-key-file <path>', "read the API key from a file, '-' for stdin (AIGW_API_KEY, AIGW_API_KEY_FILE)"),
  new Option('-o, --output <format>', 'format (AIGW_OUTPUT)').choices(FORMATS),
  new Option('--json', 'same as -o json'),
  new Option('--fields <a,b>', 'choose columns or JSON fields'),
  new Option('--field <path>', 'print one value, raw (id, users.0.email)'),
  new Option('--raw', 'the API response body, byte for byte'),
  new Option('--no-headers', 'tables without the header row'),
  new Option('-q, --quiet', 'errors only'),
  new Option('-v, --verbose', 'request line, status, request id and timing on stderr'),
  new Option('--debug', 'full HTTP trace on stderr, secrets masked (AIGW_DEBUG=api)'),
  new Option('-y, --yes', 'accept confirmations'),
  new Option('--no-input', 'never prompt (AIGW_NO_INPUT)'),
  new Option('--dry-run', 'print the request, send nothing'),
  new Option('--color <when>', 'when to colour (NO_COLOR, CLICOLOR_FORCE, FORCE_COLOR)').choices([
    'auto',
    'always',
    'never',
  ]),
  new Option('--no-pager', 'never page long tables (AIGW_PAGER, PAGER)'),
  new Option('--timeout <duration>', 'timeout such as 500ms, 30s, 2m'),
  new Option('--retries <n>', 'retries of safe requests (default 2)'),
]

/** Adds the global flags. A command's help hides the global flags and refers to `aigw --help`. */
export function addGlobalOptions(command: Command, { shown }: { shown: boolean }): void {
  const own = new Set(command.options.flatMap((option) => [option.short, option.long]))
  for (const option of globalOptions()) {
    // commander rejects duplicate options. A command's own option has precedence.
    if (own.has(option.long) || (option.short !== undefined && own.has(option.short))) continue
    command.addOption(option.hideHelp(!shown))
  }
}

/** Merges the flags from root to leaf. If a flag is repeated, the last value takes precedence. */
export function globalFlagsOf(leaf: Command): GlobalFlags {
  const names = new Set(globalOptions().map((option) => option.attributeName()))
  const lineage: Command[] = []
  for (let command: Command | null = leaf; command !== null; command = command.parent) lineage.unshift(command)
  const given = lineage.flatMap((command) =>
    Object.entries(command.opts()).filter(
      ([name]) => names.has(name) && command.getOptionValueSource(name) !== 'default',
    ),
  )
  return Object.fromEntries(given)
}

/**
 * Whether the next word is the value of this flag. Recognises short flags (`-o`), long flags (`--output`) and combined
 * short flags (`-qo`).
 */
function takesNextWord(word: string): boolean {
  const valued = globalOptions().filter((option) => option.required)
  if (word.startsWith('--')) return valued.some((option) => option.long === word)
  const at = [...word].findIndex((letter) => valued.some((option) => option.short === `-${letter}`))
  return at >= 0 && at === word.length - 1
}

/**
 * Returns the words of a command line (`[command, verb, ...]`) without flags and without the values of global flags.
 */
export function findOperands(argv: string[]): string[] {
  const operands: string[] = []
  for (let at = 0; at < argv.length; at++) {
    const word = argv[at] ?? ''
    if (word === '--') return operands
    if (word === '-' || !word.startsWith('-')) operands.push(word)
    else if (takesNextWord(word)) at++
  }
  return operands
}
