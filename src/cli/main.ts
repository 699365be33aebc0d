import { packageVersion } from './package.ts'

const VERSION_WORDS = new Set(['version', '--version', '-V'])

/**
 * Runs one command line and answers with its exit code (docs/cli.md, Exit codes). Never calls `process.exit`, which
 * would cut off output that is still on its way into a pipe.
 */
export async function main(host: NodeJS.Process): Promise<number> {
  const argv = host.argv.slice(2)
  const abort = new AbortController()
  const stop = (reason: Error) => abort.abort(reason)
  // A gone reader is noticed by whoever waits for its write; without listeners Node would report it as a crash.
  host.stdout.on('error', stop)

  // The only command that scripts call for its own sake, so it does not even load the argument parser.
  const [only] = argv
  if (argv.length === 1 && only !== undefined && VERSION_WORDS.has(only)) {
    const text = `aigw ${packageVersion()}\n`
    const failure = await new Promise<Error | null | undefined>((resolve) => host.stdout.write(text, resolve))
    if (!failure) return 0
    const { describeError, exitCodeOf, isClosedPipe, unwritable } = await import('./errors.ts')
    if (isClosedPipe(failure)) return exitCodeOf(failure)
    const error = unwritable('the output', failure)
    host.stderr.on('error', () => {}).write(`${describeError(error).join('\n')}\n`)
    return exitCodeOf(error)
  }

  const [{ runProgram }, { Interrupted }, { systemClock }] = await Promise.all([
    import('./program.ts'),
    import('./errors.ts'),
    import('../shared/time.ts'),
  ])
  // Once each: a second Ctrl-C finds no listener and ends the process at once.
  for (const name of ['SIGINT', 'SIGTERM'] as const) host.once(name, () => stop(new Interrupted(name)))
  return runProgram(argv, {
    // Node opens a standard stream when it is first asked for, and `--help` asks for one of them.
    get stdin() {
      return host.stdin
    },
    get stderr() {
      // Diagnostics that nobody reads any more must not change the result.
      if (host.stderr.listenerCount('error') === 0) host.stderr.on('error', () => {})
      return host.stderr
    },
    stdout: host.stdout,
    env: host.env,
    clock: systemClock,
    signals: host,
    signal: abort.signal,
  })
}
