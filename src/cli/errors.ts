/** Failures of the command line, their exit codes and their messages. */
import type { CliCode } from './error-codes.ts'

/** The exit codes of all commands (docs/cli.md, Errors and exit codes). */
export const EXIT = {
  ok: 0,
  error: 1,
  usage: 2,
  notFound: 3,
  auth: 4,
  forbidden: 5,
  conflict: 6,
  rateLimited: 7,
  upstream: 8,
  unreachable: 9,
  checkFailed: 10,
  ownKeys: 11,
  interrupted: 130,
  closedPipe: 141,
  terminated: 143,
} as const

export type CliErrorOptions = ErrorOptions & {
  code?: CliCode
  /** Lines that state the cause, the location of the cause, and the next command to type. */
  hints?: string[]
  httpStatus?: number | undefined
  requestId?: string | undefined
  retryable?: boolean
  /** After status 429, how long to wait before the next request. */
  retryAfterSeconds?: number | undefined
  /** The member of the request that the gateway rejected. Messages name the flag that sets this member. */
  field?: string | undefined
  /** The body of the error response, unchanged. */
  answer?: Uint8Array
}

/** A failure that is reported to the user. */
export class CliError extends Error {
  override name = 'CliError'
  readonly exitCode: number
  readonly code: CliCode
  readonly field: string | undefined
  readonly hints: string[]
  readonly httpStatus: number | undefined
  readonly requestId: string | undefined
  readonly retryable: boolean
  readonly retryAfterSeconds: number | undefined
  readonly answer: Uint8Array | undefined

  constructor(exitCode: number, message: string, options: CliErrorOptions = {}) {
    super(message, options)
    this.exitCode = exitCode
    this.code = options.code ?? 'CLI_ERROR'
    this.field = options.field
    this.hints = options.hints ?? []
    this.httpStatus = options.httpStatus
    this.requestId = options.requestId
    this.retryable = options.retryable ?? false
    this.retryAfterSeconds = options.retryAfterSeconds
    this.answer = options.answer
  }
}

/** Returns the error for a mistake in the command line or the configuration. Its exit code is 2. */
export const usageError = (message: string, hints: string[] = []): CliError =>
  new CliError(EXIT.usage, message, { code: 'USAGE', hints })

/** Thrown when the user or the system stops the program. */
export class Interrupted extends Error {
  override name = 'Interrupted'
  readonly exitCode: number

  constructor(signalName: 'SIGINT' | 'SIGTERM') {
    super(`stopped by ${signalName}`)
    this.exitCode = signalName === 'SIGINT' ? EXIT.interrupted : EXIT.terminated
  }
}

export const isErrno = (error: unknown): error is NodeJS.ErrnoException => error instanceof Error && 'code' in error

/** Returns the reason for a failed file operation in words, such as `permission denied`. */
const reasonOf = (error: unknown): string => {
  const text = error instanceof Error ? error.message : String(error)
  return /^[A-Z0-9_]+: ([^,]+)/.exec(text)?.[1] ?? text
}

/** Returns the error for a named file that cannot be read. Its exit code is 2. */
export const unreadable = (path: string, error: unknown): CliError =>
  usageError(`cannot read ${path} (${reasonOf(error)})`)

/** A handler for `catch` that throws the error of `unreadable`. */
export const failedToRead =
  (path: string) =>
  (error: unknown): never => {
    throw unreadable(path, error)
  }

/** Returns the error for a failed write to a file or to stdout. Its exit code is 1. */
export const unwritable = (what: string, error: unknown): CliError =>
  new CliError(EXIT.error, `cannot write ${what} (${reasonOf(error)})`, { code: 'NOT_WRITTEN', cause: error })

/** A handler for `catch` that throws the error of `unwritable`. */
export const failedToWrite =
  (what: string) =>
  (error: unknown): never => {
    throw unwritable(what, error)
  }

const PASSING: Set<number> = new Set([EXIT.unreachable, EXIT.upstream, EXIT.rateLimited])
/**
 * Whether the error is temporary. After a temporary error, the commands that run until Ctrl-C (`logs tail`, `webhooks
 * listen`) wait and retry.
 */
export const isPassing = (error: unknown): error is CliError => error instanceof CliError && PASSING.has(error.exitCode)

/** Whether a write to a stream failed, for instance because of a full disk or a closed terminal. */
export const isFailedWrite = (error: unknown): boolean => isErrno(error) && error.syscall === 'write'

export const isClosedPipe = (error: unknown): boolean =>
  isErrno(error) && (error.code === 'EPIPE' || error.code === 'ERR_STREAM_DESTROYED')

export function exitCodeOf(error: unknown): number {
  if (error instanceof CliError || error instanceof Interrupted) return error.exitCode
  return isClosedPipe(error) ? EXIT.closedPipe : EXIT.error
}

/** Returns the text for people. It contains the error, then the hints, then the request id. */
export function describeError(error: unknown): string[] {
  if (!(error instanceof CliError)) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
    return [`internal error: ${text}`, '  This is a bug in aigw; please report it with the command you typed.']
  }
  const request = error.requestId === undefined ? [] : [`  Request:  ${error.requestId}`]
  return [`error: ${error.message}`, ...error.hints.map((hint) => `  ${hint}`), ...request]
}

/** Returns the line that `-o json` prints to stderr. */
export function errorAsJson(error: unknown): string {
  const known = error instanceof CliError ? error : undefined
  return JSON.stringify({
    code: known?.code ?? 'INTERNAL_ERROR',
    message: error instanceof Error ? error.message : String(error),
    http_status: known?.httpStatus ?? null,
    request_id: known?.requestId ?? null,
    exit_code: exitCodeOf(error),
    retryable: known?.retryable ?? false,
    hint: known === undefined || known.hints.length === 0 ? null : known.hints.join('\n'),
  })
}
