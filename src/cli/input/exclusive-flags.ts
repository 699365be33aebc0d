import type { Command } from 'commander'
import { usageError } from '../errors.ts'

/** Makes `--<name>` and `--no-<name>` on one line a usage error, where commander would let the later one win. */
export function opposed(command: Command, ...names: string[]): Command {
  for (const name of names) {
    const said = new Set<string>()
    for (const flag of [name, `no-${name}`]) {
      command.on(`option:${flag}`, () => {
        if (said.add(flag).size === 2) throw usageError(`--${name} and --no-${name} contradict each other`)
      })
    }
  }
  return command
}
