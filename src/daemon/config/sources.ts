/**
 * The sources of the configuration. `readFile` returns the text of a file, or throws as node:fs does. `runCommand`
 * returns the output of a command, or throws.
 */
export type ConfigSources = {
  argv: readonly string[]
  env: Readonly<Record<string, string | undefined>>
  readFile(path: string): string
  runCommand?(program: string, words: readonly string[]): string
}
