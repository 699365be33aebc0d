import { Command } from 'commander'

/** Only shown in the tree: the program turns `help X` into `X --help` before anything is parsed. */
export function toCommand(): Command {
  return new Command('help').description('Show the help of a command.').argument('[command...]', 'e.g. indexes add')
}
