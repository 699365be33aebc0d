/** Prints completion scripts. */
import { Argument, Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { printText } from '../../output/output.ts'
import { type CompletionNode, type NameKind, SHELLS, type Shell, toScript } from './scripts.ts'

const INSTALL = `
Install:
  bash        aigw completion bash > ~/.local/share/bash-completion/completions/aigw
  zsh         aigw completion zsh > "\${fpath[1]}/_aigw"
  fish        aigw completion fish > ~/.config/fish/completions/aigw.fish
  powershell  aigw completion powershell >> $PROFILE`

export function toCommand(context: CliContext): Command {
  return new Command('completion')
    .description(
      'Print a completion script for your shell. It contains all commands. bash, zsh and fish also complete models,\n' +
        'indexes, groups, policies and profiles: the script asks the gateway for these names.',
    )
    .addArgument(new Argument('<shell>', 'bash, zsh, fish or powershell').choices(SHELLS))
    .addHelpText('after', INSTALL)
    .action(async (shell: Shell) => printText(context.io, toScript(shell, toNodes(await context.commandTree(), []))))
}

/** The nouns of the resources whose names are completed, by their first argument. */
const ARGUMENTS: Record<string, [argument: string, names: NameKind]> = {
  models: ['id', 'models'],
  indexes: ['index', 'indexes'],
  groups: ['group', 'groups'],
  policies: ['policy', 'policies'],
  profiles: ['name', 'profiles'],
}

/** The plural of a noun that the user may have typed in the singular. */
const PLURALS: Record<string, string> = {
  model: 'models',
  index: 'indexes',
  group: 'groups',
  policy: 'policies',
  profile: 'profiles',
  key: 'keys',
}
const nounOf = (word = ''): string => PLURALS[word] ?? word

function namesOfArgument([word]: string[], argument: string): NameKind | undefined {
  const [expected, names] = ARGUMENTS[nounOf(word)] ?? []
  return expected === argument ? names : undefined
}

const FLAGS: Record<string, NameKind> = {
  '--model': 'models',
  '--fallback': 'models',
  '--index': 'indexes',
  '--group': 'groups',
  '--policy': 'policies',
  '--default-policy': 'policies',
  '--profile': 'profiles',
}
/** In other commands, flags of these names mean files, or policies of the prompt shield. */
const WITH_NAMES: ReadonlySet<string> = new Set(['chat', 'keys', 'policies', 'indexes'])

const namesOfFlag = (word: string | undefined, flag: string | undefined): NameKind | undefined =>
  flag === '--profile' || WITH_NAMES.has(nounOf(word)) ? FLAGS[flag ?? ''] : undefined

/** Flattens the command tree into nodes, one for every name and alias. Each node lists its possible next words. */
function toNodes(command: Command, path: string[]): CompletionNode[] {
  const verbs = command.commands.map((child) => ({
    word: child.name(),
    aliases: child.aliases(),
    text: child.summary(),
  }))
  const flags = command.options.map((option) => ({
    word: option.long ?? option.flags,
    short: option.short,
    text: option.description,
    takesValue: option.required,
    values: [...(option.argChoices ?? [])],
    names: namesOfFlag(path[0], option.long),
  }))
  const help = { word: '--help', short: '-h', text: 'show help', takesValue: false, values: [], names: undefined }
  const values = command.registeredArguments.flatMap((argument) => [...(argument.argChoices ?? [])])
  const below = command.commands.flatMap((child) =>
    [child.name(), ...child.aliases()].flatMap((name) => toNodes(child, [...path, name])),
  )
  const [argument] = command.registeredArguments
  const names = argument === undefined ? undefined : namesOfArgument(path, argument.name())
  return [{ path, verbs, values, names, flags: [...flags, help] }, ...below]
}
