import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Returns the absolute path of a file or folder of this package, e.g. `deploy/aigw.service`. */
export const packagePath = (relative: string): string => fileURLToPath(new URL(`../../${relative}`, import.meta.url))

/** Returns the version of the installed package. */
export function packageVersion(): string {
  const manifest: { version: string } = JSON.parse(readFileSync(packagePath('package.json'), 'utf8'))
  return manifest.version
}
