import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, statSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))

/** Thrown if a bench cannot produce a figure. The user sees only the error's message. */
export class BenchError extends Error {
  name = 'BenchError'
}

/** Compiles the load generator if it is missing or older than its source. Returns its path. */
export function buildLoadGenerator() {
  if (process.platform !== 'linux') throw new BenchError('this bench needs Linux: it uses epoll and /proc')
  const source = path.join(root, 'bench', 'load.c')
  const binary = path.join(root, 'bench', '.cache', 'load')
  const modifiedMs = (file) => statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0
  if (modifiedMs(binary) > modifiedMs(source)) return binary
  mkdirSync(path.dirname(binary), { recursive: true })
  const compiler = process.env.CC ?? 'cc'
  try {
    execFileSync(compiler, ['-O2', '-o', binary, source, '-lm'], { stdio: ['ignore', 'inherit', 'inherit'] })
  } catch (cause) {
    throw new BenchError(
      `bench/load.c was not compiled with "${compiler}". Install a C compiler (Debian: apt install build-essential) or set CC to one.`,
      { cause },
    )
  }
  return binary
}

/** Rebuilds dist/ from src/. */
export function buildProject() {
  const { status } = spawnSync('npm', ['run', '--silent', 'build'], { cwd: root, stdio: ['ignore', 2, 2] })
  if (status !== 0) throw new BenchError('npm run build failed; see the messages above')
}
