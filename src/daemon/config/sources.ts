/** Where the configuration comes from. `readFile` answers the text of a file, or throws as node:fs does. */
export type ConfigSources = {
  argv: readonly string[]
  env: Readonly<Record<string, string | undefined>>
  readFile(path: string): string
}
