/** Exit codes, the same for every command (docs/cli.md, Exit codes). */
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
  interrupted: 130,
  closedPipe: 141,
  terminated: 143,
} as const

export type CliErrorOptions = ErrorOptions & {
  code?: string
  /** Lines that say why or where, and the next command to type. */
  hints?: string[]
  httpStatus?: number | undefined
  requestId?: string | undefined
  retryable?: boolean
  /** After a 429: when the gateway is ready to be asked again. */
  retryAfterSeconds?: number | undefined
  /** Body of the refusal, as it came. */
  answer?: Uint8Array
}

/** A failure the user is told about: one line what, then lines of why, where and what to type next. */
export class CliError extends Error {
  override name = 'CliError'
  readonly exitCode: number
  readonly code: string
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
    this.hints = options.hints ?? []
    this.httpStatus = options.httpStatus
    this.requestId = options.requestId
    this.retryable = options.retryable ?? false
    this.retryAfterSeconds = options.retryAfterSeconds
    this.answer = options.answer
  }
}

/** A mistake in what was typed or configured; exit 2. */
export const usageError = (message: string, hints: string[] = []): CliError =>
  new CliError(EXIT.usage, message, { code: 'USAGE', hints })

/** The user or the system asked the program to stop. */
export class Interrupted extends Error {
  override name = 'Interrupted'
  readonly exitCode: number

  constructor(signalName: 'SIGINT' | 'SIGTERM') {
    super(`stopped by ${signalName}`)
    this.exitCode = signalName === 'SIGINT' ? EXIT.interrupted : EXIT.terminated
  }
}

export const isErrno = (error: unknown): error is NodeJS.ErrnoException => error instanceof Error && 'code' in error

/** Why a file operation failed, in words: `permission denied`. */
const reasonOf = (error: unknown): string => {
  const text = error instanceof Error ? error.message : String(error)
  return /^[A-Z0-9_]+: ([^,]+)/.exec(text)?.[1] ?? text
}

/** A file that was named cannot be read; exit 2. */
export const unreadable = (path: string, error: unknown): CliError =>
  usageError(`cannot read ${path} (${reasonOf(error)})`)

/** A file, or stdout itself, does not take what it is to hold; exit 1. */
export const unwritable = (what: string, error: unknown): CliError =>
  new CliError(EXIT.error, `cannot write ${what} (${reasonOf(error)})`, { code: 'NOT_WRITTEN', cause: error })

/** Whether a stream refused what was written to it: a full disk, a terminal that is gone. */
export const isFailedWrite = (error: unknown): boolean => isErrno(error) && error.syscall === 'write'

export const isClosedPipe = (error: unknown): boolean =>
  isErrno(error) && (error.code === 'EPIPE' || error.code === 'ERR_STREAM_DESTROYED')

export function exitCodeOf(error: unknown): number {
  if (error instanceof CliError || error instanceof Interrupted) return error.exitCode
  return isClosedPipe(error) ? EXIT.closedPipe : EXIT.error
}

/** The lines a person reads: what, then the hints as they are, then the request to ask about. */
export function describeError(error: unknown): string[] {
  if (!(error instanceof CliError)) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
    return [`internal error: ${text}`, '  This is a bug in aigw; please report it with the command you typed.']
  }
  const request = error.requestId === undefined ? [] : [`  Request:  ${error.requestId}`]
  return [`error: ${error.message}`, ...error.hints.map((hint) => `  ${hint}`), ...request]
}

/** The one line that `-o json` prints on stderr. */
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
