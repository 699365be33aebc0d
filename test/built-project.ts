import { execFile } from 'node:child_process'
import { cp, mkdtemp, rm, stat, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const project = fileURLToPath(new URL('..', import.meta.url))

export type BuiltProject = { directory: string; remove(): Promise<void> }

/** Builds the current sources into a separate directory, with the files that an installation has. */
export async function buildProject(): Promise<BuiltProject> {
  const directory = await mkdtemp(join(tmpdir(), 'aigw-built-'))
  const remove = () => rm(directory, { recursive: true })
  try {
    for (const name of ['bin', 'deploy', 'docs/verifiers', 'package.json'])
      await cp(join(project, name), join(directory, name), { recursive: true })
    await symlink(join(project, 'node_modules'), join(directory, 'node_modules'))
    // No type check: `npm run types` does that.
    const build = ['-p', join(project, 'tsconfig.build.json'), '--noCheck', '--outDir', join(directory, 'dist')]
    await promisify(execFile)(join(project, 'node_modules/.bin/tsc'), build)
    // Bundled as by `npm run build`, because a bundled daemon starts in half the time.
    await promisify(execFile)(process.execPath, [join(project, 'scripts/bundle.mjs'), join(directory, 'dist')])
    await stat(join(directory, 'dist/aigwd/main.js'))
  } catch (error) {
    await remove()
    throw error
  }
  return { directory, remove }
}
