import { packageVersion } from './package.ts'

const VERSION_WORDS = new Set(['version', '--version', '-V'])

/**
 * Runs one command line and returns its exit code (docs/cli.md, Errors and exit codes). It never calls `process.exit`,
 * which would truncate output to a pipe.
 */
export async function main(host: NodeJS.Process): Promise<number> {
  const argv = host.argv.slice(2)
  const abort = new AbortController()
  const stop = (reason: Error) => abort.abort(reason)
  // Without this listener, the error event of a closed pipe would crash the process. Each failed write also reports its
  // error.
  host.stdout.on('error', stop)

  // Scripts call `version` often, so it does not load the argument parser.
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
  // Each listener runs once, so a second Ctrl-C ends the process immediately.
  for (const name of ['SIGINT', 'SIGTERM'] as const) host.once(name, () => stop(new Interrupted(name)))
  return runProgram(argv, {
    // Accesses each stream only when it is needed: Node opens a standard stream on first access, and `--help` needs
    // only stdout.
    get stdin() {
      return host.stdin
    },
    get stderr() {
      // A closed stderr must not change the exit code.
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
