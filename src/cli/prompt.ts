import type { Io } from './context.ts'
import { Interrupted, usageError } from './errors.ts'
import type { Settings } from './profile.ts'

/** A question needs someone to see it and someone to answer. */
export const mayPrompt = (settings: Settings, io: Io): boolean =>
  settings.mayPrompt && io.stdin.isTTY === true && io.stderr.isTTY === true

const promptContext = (io: Io) => ({ input: io.stdin, output: io.stderr, signal: io.signal })

/** Returns when the user agrees or said `--yes`; throws a usage error otherwise. Never assumes a yes. */
export async function assertConfirmed(question: string, settings: Settings, io: Io): Promise<void> {
  if (settings.yes) return
  if (!mayPrompt(settings, io)) throw usageError(`${question} Pass --yes to confirm (nobody can be asked here)`)
  const { confirm } = await import('@inquirer/prompts')
  const agreed = await confirm({ message: question, default: false }, promptContext(io)).catch(toInterrupted)
  if (!agreed) throw usageError('cancelled, nothing was changed')
}

/** Asks for a secret without showing it. */
export async function askSecret(message: string, io: Io): Promise<string> {
  const { password } = await import('@inquirer/prompts')
  return password({ message, mask: false }, promptContext(io)).catch(toInterrupted)
}

// The library has its own error for Ctrl-C.
function toInterrupted(error: unknown): never {
  if (error instanceof Error && error.name === 'ExitPromptError') throw new Interrupted('SIGINT')
  throw error
}
