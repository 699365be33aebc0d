/** Names the flag or argument that sets a member of a request, so that errors name what the user typed. */
import type { Command } from 'commander'
import { CliError } from '../errors.ts'

const MEMBERS = new WeakMap<Command, Record<string, string>>()

/** Records which flags of a command set which members, if their names differ. */
export function nameMembers(command: Command, names: Record<string, string>): Command {
  MEMBERS.set(command, { ...MEMBERS.get(command), ...names })
  return command
}

/** Returns the flag that sets this member: `--max-tokens` for `max_tokens`. Undefined if no flag sets it. */
export function flagFor(command: Command, member: string): string | undefined {
  const path = member.replace(/\[\d+\]|\.\d+(?=\.|$)/g, '')
  const names = MEMBERS.get(command) ?? {}
  for (const name of [path, path.split('.')[0] ?? '']) {
    if (Object.hasOwn(names, name)) return names[name]
    const long = `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`).replaceAll('_', '-')}`
    if (command.options.some((option) => option.long === long)) return long
  }
  return undefined
}

/** Replaces the name of the rejected member in an error of the gateway by its flag. */
export function withFlagName(error: unknown, command: Command | undefined): unknown {
  if (!(error instanceof CliError) || error.field === undefined || command === undefined) return error
  const { field } = error
  const flag = flagFor(command, field)
  if (flag === undefined) return error
  const { exitCode, code, httpStatus, requestId, retryable, retryAfterSeconds } = error
  return new CliError(exitCode, renamed(error.message, field, flag), {
    ...{ code, httpStatus, requestId, retryable, retryAfterSeconds, field, cause: error },
    hints: error.hints.map((hint) => (hint === `Field:  ${field}` ? `Flag:  ${flag}` : hint)),
    ...(error.answer !== undefined && { answer: error.answer }),
  })
}

/** A member such as `name` is also an ordinary word, so it is replaced only at the start of the message. */
function renamed(message: string, field: string, flag: string): string {
  const isWord = /^[a-z]+$/.test(field)
  const start = message.startsWith(`${field} `) ? `${flag}${message.slice(field.length)}` : message
  return isWord ? start.replace(`(Invalid ${field})`, `(Invalid ${flag})`) : start.replaceAll(field, () => flag)
}
