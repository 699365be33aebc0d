import { readFileSync } from 'node:fs'
import { constants } from 'node:os'
import { systemClock } from '../shared/time.ts'
import type { App } from './app.ts'
import { parseFlags, USAGE } from './config/flags.ts'
import { ConfigFaults, loadConfig } from './config.ts'
import { createLog, type DaemonLog, withoutSecrets } from './log.ts'
import { notifySystemd } from './systemd.ts'

const EXIT_FAILURE = 1
/** EX_CONFIG of sysexits.h; the unit file tells systemd not to try again. */
const EXIT_CONFIG = 78

/** The daemon as a program: environment → config → app, then signals until the end. */
export async function runDaemon(): Promise<void> {
  const argv = process.argv.slice(2)
  const { flags } = parseFlags(argv)
  if (flags.help) return print(USAGE)
  if (flags.version) return print(`aigwd ${version()}\n`)

  const config = loadConfig({ argv, env: process.env, readFile: (path) => readFileSync(path, 'utf8') })
  if (config instanceof ConfigFaults) {
    for (const fault of config.faults) complain(fault)
    process.exitCode = EXIT_CONFIG
    return
  }
  if (flags.check) return print('The configuration is good.\n')

  // The store, its lock and admin.key are nobody else's business, whatever the shell that starts us allows.
  process.umask(0o077)
  const log = createLog(config.log.level)
  process.on('uncaughtException', (error) => {
    log.fatal({ error }, 'unexpected fault, the process ends')
    exit(EXIT_FAILURE, log)
  })
  try {
    // Loaded only now, so that --check and --help answer at once.
    const { startApp } = await import('./app.ts')
    const app = await startApp(config, { clock: systemClock, log })
    stopOnSignals(app, log)
    log.info({ url: app.url, version: version(), pid: process.pid }, 'listening')
    await notifySystemd(['READY=1', `STATUS=Listening on ${app.url}`], process.env, log)
  } catch (error) {
    log.error({ error }, 'not started')
    complain(reasonOf(error))
    exit(EXIT_FAILURE, log)
  }
}

/** The first SIGTERM or SIGINT drains and ends with 0; the second ends at once with 128 + its number. */
function stopOnSignals(app: App, log: DaemonLog): void {
  let stopping = false
  const stop = async (signal: NodeJS.Signals) => {
    if (stopping) exit(128 + constants.signals[signal], log)
    stopping = true
    log.info({ signal }, 'draining')
    const told = notifySystemd(['STOPPING=1', 'STATUS=Draining'], process.env, log)
    try {
      await app.drain()
      await told
    } catch (error) {
      log.error({ error }, 'not stopped cleanly')
      exit(EXIT_FAILURE, log)
    }
    log.info({}, 'stopped')
    exit(0, log)
  }
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)
}

function exit(code: number, log: DaemonLog): never {
  log.flush()
  process.exit(code)
}

/** One line for a person: what stopped us. */
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join('; ')
  const message = error instanceof Error ? error.message || error.name : String(error)
  return withoutSecrets(message).replace(/\s*\n\s*/g, ' ')
}

const complain = (line: string): void => void process.stderr.write(`aigwd: ${line}\n`)
const print = (text: string): void => void process.stdout.write(text)

function version(): string {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  return version
}
