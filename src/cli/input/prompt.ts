/** Asks the user at the terminal. */
import type { CliContext } from '../context.ts'
import { Interrupted, usageError } from '../errors.ts'
import type { Io } from '../io.ts'
import { forTerminalLine } from '../output/terminal-text.ts'
import type { Settings } from '../profile/profile.ts'

/** Whether prompts are allowed and possible. They are possible if stdin and stderr are terminals. */
export const mayPrompt = (settings: Settings, io: Io): boolean =>
  settings.mayPrompt && io.stdin.isTTY === true && io.stderr.isTTY === true

const promptContext = (io: Io) => ({ input: io.stdin, output: io.stderr, signal: io.signal })

/** Returns if the user confirms or passed `--yes`; otherwise throws a usage error. */
export async function assertConfirmed(question: string, settings: Settings, io: Io): Promise<void> {
  if (settings.yes) return
  if (!mayPrompt(settings, io)) throw usageError(`${question} Pass --yes to confirm (prompting needs a terminal)`)
  const { confirm } = await import('@inquirer/prompts')
  // The question contains names from the gateway. These names may contain control characters, so the question is
  // escaped.
  const agreed = await confirm({ message: forTerminalLine(question), default: false }, promptContext(io)).catch(
    toInterrupted,
  )
  if (!agreed) throw usageError('cancelled, nothing was changed')
}

/** Asks for a secret without showing the typed text. */
export async function askSecret(message: string, io: Io): Promise<string> {
  const { password } = await import('@inquirer/prompts')
  return password({ message, mask: false }, promptContext(io)).catch(toInterrupted)
}

/** Asks for a text. */
export async function askText(message: string, io: Io, byDefault?: string): Promise<string> {
  const { input } = await import('@inquirer/prompts')
  const question = byDefault === undefined ? { message } : { message, default: byDefault }
  return input(question, promptContext(io)).catch(toInterrupted)
}

/** Asks a question whose default answer is no. */
export async function askChoice(message: string, io: Io): Promise<boolean> {
  const { confirm } = await import('@inquirer/prompts')
  return confirm({ message, default: false }, promptContext(io)).catch(toInterrupted)
}

/**
 * Returns the value or, if it is undefined, the answer to a prompt. Without a terminal, throws a usage error that names
 * `flag`.
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

// Converts the error that the prompt library throws at Ctrl-C.
function toInterrupted(error: unknown): never {
  if (error instanceof Error && error.name === 'ExitPromptError') throw new Interrupted('SIGINT')
  throw error
}
