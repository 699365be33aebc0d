import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { Socket } from 'node:net'
import { constants } from 'node:os'
import { systemClock } from '../shared/time.ts'
import type { App } from './app.ts'
import { ConfigFaults, loadConfig } from './config/config.ts'
import { parseFlags, USAGE } from './config/flags.ts'
import { createLog, type DaemonLog, withoutSecrets } from './platform/log.ts'
import { notifySystemd } from './platform/systemd.ts'

const EXIT_FAILURE = 1
/** EX_CONFIG of sysexits.h. The unit file tells systemd not to restart the daemon after this exit code. */
const EXIT_CONFIG = 78
/** The maximum time that the exit waits for a slow reader of the log. */
const LOG_FLUSH_MS = 1_000
/** Limits of a command that prints a secret of the configuration. */
const COMMAND_MS = 30_000
const COMMAND_BYTES = 4_096

/** The daemon's main program: loads the configuration, starts the app, and runs until a signal stops it. */
export async function runDaemon(): Promise<void> {
  const argv = process.argv.slice(2)
  if (argv[0] === 'db') return runDb(argv.slice(1))
  const { flags } = parseFlags(argv)
  if (flags.help) return print(USAGE)
  if (flags.version) return print(`aigwd ${version()}\n`)

  const outputs = new Map<string, string>()
  /** A reload does not run a command again: the master key applies only at the start, and a slow command would block. */
  function runCommand(program: string, words: readonly string[]): string {
    const command = JSON.stringify([program, ...words])
    const output =
      outputs.get(command) ??
      execFileSync(program, words, {
        encoding: 'utf8',
        timeout: COMMAND_MS,
        maxBuffer: COMMAND_BYTES,
        stdio: ['ignore', 'pipe', 'inherit'],
      })
    outputs.set(command, output)
    return output
  }
  const load = () => loadConfig({ argv, env: process.env, readFile: (path) => readFileSync(path, 'utf8'), runCommand })
  const config = load()
  if (config instanceof ConfigFaults) {
    for (const fault of config.faults) complain(fault)
    process.exitCode = EXIT_CONFIG
    return
  }
  if (flags.check) return print('The configuration is valid.\n')

  // Makes the store, its lock and admin.key private to this user, regardless of the umask of the starting shell.
  process.umask(0o077)
  const log = createLog(config.log.level)
  // A signal during the start must not end the daemon. It is then ready with the configuration that it has just read.
  process.on('SIGHUP', () => {})
  process.on('uncaughtException', (error) => {
    log.fatal({ error }, 'unexpected error; the process exits')
    exit(EXIT_FAILURE, log)
  })
  try {
    const parentGone = config.parentPipe === undefined ? undefined : endOfPipe(config.parentPipe)
    // This module is imported only here, so that `--check` and `--help` respond immediately.
    const { startApp } = await import('./app.ts')
    const app = await startApp(config, {
      clock: systemClock,
      log,
      loadConfig: load,
      onConfig: ({ log: { level } }) => log.setLevel(level),
    })
    stopInTime(app, log, parentGone)
    reloadOnSignal(app, log)
    log.info({ url: app.url, version: version(), pid: process.pid }, 'listening')
    await notifySystemd(['READY=1', `STATUS=Listening on ${app.url}`], process.env, log)
  } catch (error) {
    // One line states the cause. The stack would only repeat it.
    log.debug({ error }, 'the daemon could not start')
    complain(reasonOf(error))
    exit(EXIT_FAILURE, log)
  }
}

/** Runs `aigwd db`, without a daemon. */
async function runDb(argv: readonly string[]): Promise<void> {
  const { DB_USAGE, runDbCommand } = await import('./maintenance/command.ts')
  if (argv.some((word) => word === '--help' || word === '-h')) return print(DB_USAGE)
  process.umask(0o077)
  const load = (flags: readonly string[]) => {
    const runCommand = (program: string, words: readonly string[]) =>
      execFileSync(program, words, {
        encoding: 'utf8',
        timeout: COMMAND_MS,
        maxBuffer: COMMAND_BYTES,
        stdio: ['ignore', 'pipe', 'inherit'],
      })
    const readFile = (path: string) => readFileSync(path, 'utf8')
    const config = loadConfig({ argv: flags, env: process.env, readFile, runCommand })
    if (!(config instanceof ConfigFaults)) return config
    throw Object.assign(new Error(config.faults.join('; ')), { exitCode: EXIT_CONFIG })
  }
  const { env, stdin, stdout } = process
  try {
    process.exitCode = await runDbCommand(argv, { load, env, stdin, stdout })
  } catch (error) {
    complain(reasonOf(error))
    const code = error instanceof Error && 'exitCode' in error ? Number(error.exitCode) : EXIT_FAILURE
    // Streams that are still open must not keep the process running.
    process.exit(code)
  }
}

/**
 * Drains and exits with 0 after the first SIGTERM or SIGINT, or after the parent process has ended. A second SIGTERM or
 * SIGINT exits immediately with 128 + the signal's number.
 */
function stopInTime(app: App, log: DaemonLog, parentGone: Promise<void> | undefined): void {
  let stopping = false
  async function stop(cause: object): Promise<void> {
    if (stopping) return
    stopping = true
    log.info(cause, 'draining')
    const told = notifySystemd(['STOPPING=1', 'STATUS=Draining'], process.env, log)
    try {
      await app.drain()
      await told
    } catch (error) {
      log.error({ error }, 'the shutdown failed')
      return exit(EXIT_FAILURE, log)
    }
    log.info({}, 'stopped')
    exit(0, log)
  }
  for (const name of ['SIGTERM', 'SIGINT'] as const) {
    process.on(name, (signal) => (stopping ? exit(128 + constants.signals[name], log) : stop({ signal })))
  }
  parentGone?.then(() => stop({ parent: 'gone' }))
}

/** Reloads the configuration after SIGHUP. Signals that arrive during a reload cause one more reload. */
function reloadOnSignal(app: App, log: DaemonLog): void {
  let isWanted = false
  let isRunning = false
  async function run(): Promise<void> {
    isRunning = true
    while (isWanted) {
      isWanted = false
      // systemd requires the time, to tell this reload from an earlier one.
      const usec = process.hrtime.bigint() / 1000n
      await notifySystemd(['RELOADING=1', `MONOTONIC_USEC=${usec}`], process.env, log)
      await app.reload()
      await notifySystemd(['READY=1', `STATUS=Listening on ${app.url}`], process.env, log)
    }
    isRunning = false
  }
  process.on('SIGHUP', () => {
    isWanted = true
    if (!isRunning) void run()
  })
}

/** Resolves when the other end of this pipe is closed. @throws Error if the descriptor is not a pipe. */
function endOfPipe(fd: number): Promise<void> {
  const pipe = openPipe(fd)
  pipe.unref().resume()
  pipe.on('error', () => {})
  return new Promise((resolve) => pipe.once('close', () => resolve()))
}

function openPipe(fd: number): Socket {
  try {
    return new Socket({ fd, readable: true, writable: false })
  } catch (error) {
    throw new Error(
      `AIGW_PARENT_PIPE: descriptor ${fd} is not the end of a pipe. Unset it, or pass the read end of a pipe.`,
      { cause: error },
    )
  }
}

/** Ends the process when the log has been flushed, but after LOG_FLUSH_MS at the latest. */
function exit(code: number, log: DaemonLog): void {
  setTimeout(() => process.exit(code), LOG_FLUSH_MS)
  log.flush().then(() => process.exit(code))
}

/** Returns the cause of an error as one human-readable line. */
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join('; ')
  if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') {
    return `${error.message.replace(/^listen EADDRINUSE: /, '')}. Stop the process that uses this address, or choose another address with --listen.`
  }
  const message = error instanceof Error ? error.message || error.name : String(error)
  return withoutSecrets(message).replace(/\s*\n\s*/g, ' ')
}

const complain = (line: string): void => void process.stderr.write(`aigwd: ${line}\n`)
const print = (text: string): void => void process.stdout.write(text)

function version(): string {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  return version
}
