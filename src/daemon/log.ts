import pino from 'pino'

/** What the slices log through: an object with the facts, and a message that names the event. */
export type Log = {
  debug(facts: object, message: string): void
  info(facts: object, message: string): void
  warn(facts: object, message: string): void
  error(facts: object, message: string): void
}

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent'

/** The daemon's own log: `flush` writes what is still held, for the moment before the process ends. */
export type DaemonLog = Log & { fatal(facts: object, message: string): void; flush(): void }

// Secrets are looked for in the finished line, so that no depth of nesting and no error text can carry one past.
// Only whole names count: `apiKeyId` and `secret_hash` are worth reading.
const SECRET_MEMBER =
  /"([\w-]*(?:authorization|api[_-]?key|bootstrap[_-]?key|password|secret|cookie))":("(?:[^"\\]|\\.)*"|\[(?:"(?:[^"\\]|\\.)*",?)*\])/gi
const API_KEY = /\bsk-[\w-]{16,}/g
const SIGNING_SECRET = /\bwhsec_[\w+/=-]{8,}/g
const BEARER = /\b(bearer\s+)[^\s"\\]+/gi
const URL_PASSWORD = /(:\/\/[^\s:@/"]*:)[^\s@/"]+@/g

/** Takes every secret out of one line of JSON; the line stays JSON. */
export function withoutSecrets(line: string): string {
  return line
    .replace(SECRET_MEMBER, '"$1":"[secret]"')
    .replace(API_KEY, 'sk-[secret]')
    .replace(SIGNING_SECRET, 'whsec_[secret]')
    .replace(BEARER, '$1[secret]')
    .replace(URL_PASSWORD, '$1[secret]@')
}

/**
 * JSON lines on `fd` (stdout by default), one for each event: `{"level":"info","time":"2026-01-31T…Z",…,"msg":…}`.
 * Secrets are left out. Writing never makes a request wait, and a reader that went away costs the log, not the service.
 */
export function createLog(level: LogLevel, fd = 1): DaemonLog {
  const destination = pino.destination({ fd, sync: false, minLength: 0 })
  destination.on('error', () => {})
  const logger = pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { error: pino.stdSerializers.errWithCause },
      hooks: { streamWrite: withoutSecrets },
    },
    destination,
  )
  return {
    debug: (facts, message) => logger.debug(facts, message),
    info: (facts, message) => logger.info(facts, message),
    warn: (facts, message) => logger.warn(facts, message),
    error: (facts, message) => logger.error(facts, message),
    fatal: (facts, message) => logger.fatal(facts, message),
    flush: () => destination.flushSync(),
  }
}
