import { Command } from 'commander'

/** Listed in the help, but never run: the program turns `help X` into `X --help` before parsing. */
export function toCommand(): Command {
  return new Command('help').description('Show the help of a command.').argument('[command...]', 'e.g. indexes add')
}
