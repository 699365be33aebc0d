import type { CliContext } from '../context.ts'
import { Interrupted, usageError } from '../errors.ts'
import type { Io } from '../io.ts'
import { forTerminalLine } from '../output/terminal-text.ts'
import type { Settings } from '../profile/profile.ts'

/** A question needs someone to see it and someone to answer. */
export const mayPrompt = (settings: Settings, io: Io): boolean =>
  settings.mayPrompt && io.stdin.isTTY === true && io.stderr.isTTY === true

const promptContext = (io: Io) => ({ input: io.stdin, output: io.stderr, signal: io.signal })

/** Returns when the user agrees or passed `--yes`; throws a usage error otherwise. Never assumes a yes. */
export async function assertConfirmed(question: string, settings: Settings, io: Io): Promise<void> {
  if (settings.yes) return
  if (!mayPrompt(settings, io)) throw usageError(`${question} Pass --yes to confirm (nobody can be asked here)`)
  const { confirm } = await import('@inquirer/prompts')
  // It names what others have named.
  const agreed = await confirm({ message: forTerminalLine(question), default: false }, promptContext(io)).catch(
    toInterrupted,
  )
  if (!agreed) throw usageError('cancelled, nothing was changed')
}

/** Asks for a secret without showing it. */
export async function askSecret(message: string, io: Io): Promise<string> {
  const { password } = await import('@inquirer/prompts')
  return password({ message, mask: false }, promptContext(io)).catch(toInterrupted)
}

/**
 * The value, or what the person at the terminal answers for it. Throws a usage error that names `flag` where nobody can be
 * asked.
 */
export async function askMissing(
  context: CliContext,
  { flag, message }: { flag: string; message: string },
  value: string | undefined,
): Promise<string> {
  if (value !== undefined) return value
  const { io } = context
  if (!mayPrompt(await context.settings(), io)) throw usageError(`${flag} is missing`)
  const { input } = await import('@inquirer/prompts')
  return input({ message, required: true }, promptContext(io)).catch(toInterrupted)
}

// The library has its own error for Ctrl-C.
function toInterrupted(error: unknown): never {
  if (error instanceof Error && error.name === 'ExitPromptError') throw new Interrupted('SIGINT')
  throw error
}
