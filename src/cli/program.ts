/** Builds the command tree and runs one command line. */
import { Command, CommanderError, type Option } from 'commander'
import { COMMAND_GROUPS, type Entry, entriesOnPath, findCommand, findEntry } from './commands/command-table.ts'
import type { CliContext } from './context.ts'
import { createContext } from './create-context.ts'
import { type CliError, usageError } from './errors.ts'
import { addGlobalOptions, findOperands, globalFlagsOf } from './input/global-flags.ts'
import { type Io, writeTo } from './io.ts'
import { packageVersion } from './package.ts'

const HELP_FLAGS = new Set(['-h', '--help'])

/** The commands to load completely: all commands (for completion), or only the commands that these words name. */
type Selection = 'all' | string[]

/** Builds the command tree. Commands outside the selection have only a name and a summary. */
export async function buildProgram(context: CliContext, selection: Selection): Promise<Command> {
  const program = new Command('aigw')
    .description('Talk to and run an aigw gateway.')
    .usage('[flags] <command> [flags]')
    .version(packageVersion(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'show help')
    .helpCommand(false)
    .enablePositionalOptions()
    .exitOverride()
    .configureHelp({ subcommandTerm: (command) => command.name(), optionDescription: describeOption })
    .hook('preAction', (_, leaf) => {
      context.globals = globalFlagsOf(leaf)
      context.command = leaf
    })
  program.optionsGroup('Global flags (before or after the command):')
  addGlobalOptions(program, { shown: true })
  program.addHelpText('after', '\nMore on one command:  aigw help <command>')
  for (const { title, entries } of COMMAND_GROUPS) {
    for (const command of await buildEntries(entries, context, program, selection)) {
      program.addCommand(command.helpGroup(title))
    }
  }
  return program
}

/** Returns the description of a flag with its choices and its default. Omits the default `false`. */
function describeOption({ description, argChoices, defaultValue }: Option): string {
  const choices = argChoices === undefined ? '' : `: ${argChoices.join(', ')}`
  const isShown = typeof defaultValue === 'string' || typeof defaultValue === 'number'
  return `${description}${choices}${isShown ? ` (default ${defaultValue})` : ''}`
}

async function buildEntries(entries: Entry[], context: CliContext, parent: Command, selection: Selection) {
  const chosen = selection === 'all' ? undefined : findEntry(entries, selection[0])
  const below = selection === 'all' ? 'all' : selection.slice(1)
  return Promise.all(
    entries.map(async (entry) => {
      const isChosen = selection === 'all' || entry === chosen
      const command = await buildEntry(entry, context, parent, isChosen ? below : undefined)
      return command.aliases(entry.aliases ?? []).summary(entry.summary)
    }),
  )
}

async function buildEntry(entry: Entry, context: CliContext, parent: Command, below: Selection | undefined) {
  if (below === undefined) return new Command(entry.name)
  if ('verbs' in entry) {
    const group = new Command(entry.name).description(entry.summary).copyInheritedSettings(parent).helpCommand(false)
    addGlobalOptions(group, { shown: false })
    const { usual } = entry
    const named = usual !== undefined && below !== 'all' && below.length === 0 ? [usual] : below
    for (const verb of await buildEntries(entry.verbs, context, group, named))
      group.addCommand(verb, { isDefault: verb.name() === usual })
    return group
  }
  const leaf = (await entry.load())(context).copyInheritedSettings(parent)
  addGlobalOptions(leaf, { shown: false })
  return leaf.addHelpText('after', '\nGlobal flags:  aigw --help')
}

/** Turns `help indexes add` into `indexes add --help`. Throws a usage error for an unknown command. */
function normalise(argv: string[], operands: string[]): string[] {
  const [first, ...rest] = operands
  if (first === 'help') return rest.length === 0 ? ['--help'] : isKnown(rest) ? [...rest, '--help'] : rest
  return isKnown(operands) ? argv : argv.filter((word) => !HELP_FLAGS.has(word))
}

/** Whether the words name a command or a group of commands. */
function isKnown(words: string[]): boolean {
  const path = entriesOnPath(words)
  const last = path.at(-1)
  return path.length === words.length || (last !== undefined && !('verbs' in last))
}

/** Runs `aigw <words>`. Returns the exit code after the streams have accepted all output. */
export async function runProgram(words: string[], io: Io): Promise<number> {
  const argv = normalise(words, findOperands(words))
  const operands = findOperands(argv)
  const context = createContext(io, {
    managesProfiles: findCommand(operands[0])?.managesProfiles === true,
    commandTree: (context) => buildProgram(context, 'all'),
  })
  try {
    let printed = ''
    const program = await buildProgram(context, operands)
    const configureOutput = (command: Command) => {
      command.configureOutput({
        writeOut: (text) => {
          printed += text
        },
        writeErr: () => {},
        getOutHelpWidth: () => io.stdout.columns ?? 80,
        getErrHelpWidth: () => io.stdout.columns ?? 80,
      })
      command.commands.forEach(configureOutput)
    }
    configureOutput(program)
    try {
      // `aigw` without words prints the help. `aigw indexes` without a verb is an error, so that a script with this
      // mistake stops.
      await program.parseAsync(operands.length === 0 ? [...argv, '--help'] : argv, { from: 'user' })
    } catch (error) {
      if (!(error instanceof CommanderError)) throw error
      if (error.code === 'commander.help') throw missingVerb(operands)
      if (error.exitCode !== 0) throw toUsageError(error, operands)
      await writeTo(io.stdout, error.code === 'commander.version' ? `aigw ${printed}` : printed)
    }
    return context.exitCode
  } catch (error) {
    const { reportFailure } = await import('./output/failure.ts')
    return await reportFailure(error, words, context)
  } finally {
    await context.close()
  }
}

const missingVerb = (operands: string[]): Error =>
  usageError(`'aigw ${operands.join(' ')}' needs a subcommand`, [`See:  aigw ${operands.join(' ')} --help`])

/**
 * Converts commander's error to a usage error with exit code 2, because commander itself uses exit code 1 for every
 * mistake.
 */
function toUsageError(error: CommanderError, operands: string[]): CliError {
  const [what = '', ...more] = error.message.split('\n')
  const known = operands.slice(0, entriesOnPath(operands).length)
  const hints = more.map((line) => line.replace(/^\((.*)\)$/, '$1')).filter((line) => line !== '')
  return usageError(what.replace(/^error: /, ''), [...hints, `See:  ${['aigw', ...known].join(' ')} --help`])
}
