/** Prints completion scripts. */
import { Argument, Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { printText } from '../../output/output.ts'
import { type CompletionNode, SHELLS, type Shell, toScript } from './scripts.ts'

const INSTALL = `
Install:
  bash        aigw completion bash > ~/.local/share/bash-completion/completions/aigw
  zsh         aigw completion zsh > "\${fpath[1]}/_aigw"
  fish        aigw completion fish > ~/.config/fish/completions/aigw.fish
  powershell  aigw completion powershell >> $PROFILE`

export function toCommand(context: CliContext): Command {
  return new Command('completion')
    .description('Print a completion script for your shell. It contains all commands, so completion starts no process.')
    .addArgument(new Argument('<shell>', 'bash, zsh, fish or powershell').choices(SHELLS))
    .addHelpText('after', INSTALL)
    .action(async (shell: Shell) => printText(context.io, toScript(shell, toNodes(await context.commandTree(), []))))
}

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
  }))
  const help = { word: '--help', short: '-h', text: 'show help', takesValue: false, values: [] }
  const values = command.registeredArguments.flatMap((argument) => [...(argument.argChoices ?? [])])
  const below = command.commands.flatMap((child) =>
    [child.name(), ...child.aliases()].flatMap((name) => toNodes(child, [...path, name])),
  )
  return [{ path, verbs, values, flags: [...flags, help] }, ...below]
}
