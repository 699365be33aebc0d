import { Command } from 'commander'

/**
 * Exists only for the list of commands in the help. This command never runs, because the program turns `help X` into `X
 * --help` before parsing.
 */
export function toCommand(): Command {
  return new Command('help').description('Show the help of a command.').argument('[command...]', 'e.g. indexes add')
}
