// Removes dist/ before a build, because tsc keeps the output of deleted sources.
import { rm } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'

await rm(fileURLToPath(new URL('../dist', import.meta.url)), { recursive: true, force: true })
