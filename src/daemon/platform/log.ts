import type { Writable } from 'node:stream'
import pino from 'pino'
import { isoTime } from '../../shared/time.ts'

/** The log interface of all modules. Each call gets an object with the facts, and a message that names the event. */
export type Log = {
  debug(facts: object, message: string): void
  info(facts: object, message: string): void
  warn(facts: object, message: string): void
  error(facts: object, message: string): void
}

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent'

/** The daemon's own log. */
export type DaemonLog = Log & {
  fatal(facts: object, message: string): void
  /** Applies to lines that are logged from now on. */
  setLevel(level: LogLevel): void
  /**
   * Resolves when all lines logged so far are written, or when the reader is closed. The promise does not resolve while
   * the reader is stalled.
   */
  flush(): Promise<void>
}

/**
 * The maximum number of characters that are buffered for a slow reader. Lines beyond this limit are counted and
 * dropped.
 */
const BACKLOG_CHARS = 4_194_304

// The finished line is searched for secrets, so that secrets in nested objects and error texts are also found. A name
// must match completely: `apiKeyId` and `secret_hash` stay readable.
const SECRET_MEMBER =
  /"([\w-]*(?:authorization|api[_-]?key|bootstrap[_-]?key|password|secret|cookie))":("(?:[^"\\]|\\.)*"|\[(?:"(?:[^"\\]|\\.)*",?)*\])/gi
const API_KEY = /\bsk-[\w-]{16,}/g
const SIGNING_SECRET = /\bwhsec_[\w+/=-]{8,}/g
const BEARER = /\b(bearer\s+)[^\s"\\]+/gi
const URL_PASSWORD = /(:\/\/[^\s:@/"]*:)[^\s@/"]+@/g

/** Removes every secret from one line of JSON. The result is still valid JSON. */
export function withoutSecrets(line: string): string {
  return line
    .replace(SECRET_MEMBER, '"$1":"[secret]"')
    .replace(API_KEY, 'sk-[secret]')
    .replace(SIGNING_SECRET, 'whsec_[secret]')
    .replace(BEARER, '$1[secret]')
    .replace(URL_PASSWORD, '$1[secret]@')
}

/**
 * Writes one JSON line per event to `out`, in order: `{"level":"info","time":"2026-01-31T…Z",…,"msg":…}`. Secrets are
 * removed. A slow or closed reader never delays a request, but log lines may be lost.
 */
export function createLog(level: LogLevel, out: Writable = process.stdout): DaemonLog {
  const lines = createLineWriter(out)
  const logger = pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { error: pino.stdSerializers.errWithCause },
      hooks: { streamWrite: withoutSecrets },
    },
    lines,
  )
  return {
    debug: (facts, message) => logger.debug(facts, message),
    info: (facts, message) => logger.info(facts, message),
    warn: (facts, message) => logger.warn(facts, message),
    error: (facts, message) => logger.error(facts, message),
    fatal: (facts, message) => logger.fatal(facts, message),
    setLevel(next) {
      logger.level = next
    },
    flush: lines.flush,
  }
}

// Lines are written through a stream, because file writes use libuv's threads. If a thread blocks on a pipe without a
// reader, it cannot be cancelled. The process could then not end, and the store would have one thread less.
function createLineWriter(out: Writable): { write(line: string): void; flush(): Promise<void> } {
  let turn = ''
  let dropped = 0
  out.on('error', () => {})

  /** All lines of one turn of the event loop are combined into one write. */
  function send(): void {
    const text = turn
    turn = ''
    try {
      if (text !== '') out.write(text)
    } catch {
      // The write throws an error if the disk is full. In this case, the lines are lost, but the daemon keeps running.
    }
  }

  return {
    write(line) {
      if (out.writableLength + turn.length + line.length > BACKLOG_CHARS) {
        dropped++
        return
      }
      if (turn === '') setImmediate(send)
      if (dropped > 0) turn += droppedLine(dropped)
      dropped = 0
      turn += line
    },
    flush() {
      send()
      return new Promise((resolve) => {
        out.write('', () => resolve())
      })
    },
  }
}

const droppedLine = (dropped: number): string =>
  `${JSON.stringify({ level: 'warn', time: isoTime(Date.now()), dropped, msg: 'log lines were dropped because the reader of this log is too slow' })}\n`
