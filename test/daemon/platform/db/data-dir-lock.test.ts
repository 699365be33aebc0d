import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { DataDirInUseError, lockDataDir, makeDataDir } from '../../../../src/daemon/platform/db/data-dir-lock.ts'
import { startTypescript, type TypescriptProcess } from '../../../typescript-process.ts'

let parent: string
let dataDir: string
const processes: TypescriptProcess[] = []

beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'aigw-lock-'))
  dataDir = join(parent, 'data')
})

afterEach(async () => {
  for (const other of processes.splice(0)) await other.kill()
  await rm(parent, { recursive: true, force: true })
})

const startHolder = (): TypescriptProcess => {
  const other = startTypescript(new URL('data-dir-holder.ts', import.meta.url), [dataDir])
  processes.push(other)
  return other
}

test("a second process is rejected with the holder's process, start time and address", async () => {
  const holder = startHolder()
  expect(await holder.line()).toBe('locked')
  const refusal = await lockDataDir(dataDir).catch((error: unknown) => error)
  expect(refusal).toBeInstanceOf(DataDirInUseError)
  expect(String(refusal)).toContain(dataDir)
  expect(String(refusal)).toContain(`process ${holder.child.pid} on `)
  expect(String(refusal)).toMatch(/since \d{4}-\d\d-\d\dT[\d:.]+Z, listening on http:\/\/127\.0\.0\.1:8787/)
})

test('kill -9 of the holder releases the directory at once', async () => {
  const holder = startHolder()
  expect(await holder.line()).toBe('locked')
  await holder.kill('SIGKILL')
  const lock = await lockDataDir(dataDir)
  await lock.release()
})

test('a process that cannot lock reports why and leaves the lock with its holder', async () => {
  const lock = await lockDataDir(dataDir)
  for (let attempt = 0; attempt < 2; attempt++) {
    expect(await startHolder().line()).toContain(`process ${process.pid} on `)
  }
  await lock.release()
})

test('a second daemon in the same process is rejected as well', async () => {
  const lock = await lockDataDir(dataDir)
  await expect(lockDataDir(dataDir)).rejects.toThrow(DataDirInUseError)
  await lock.release()
})

test('a released directory can be locked again, and names no holder meanwhile', async () => {
  const first = await lockDataDir(dataDir)
  await first.release()
  expect(await readdir(dataDir)).toEqual(['aigwd.lock'])
  const second = await lockDataDir(dataDir)
  await second.release()
})

test.each(['data', 'data/below'])('a file instead of the directory %s is reported as a file', async (path) => {
  await writeFile(dataDir, '')
  await expect(lockDataDir(join(parent, path))).rejects.toThrow(
    `Cannot create the data directory ${join(parent, path)}: the path or a part of it is a file, not a directory`,
  )
})

test('a data directory that cannot be created is an error instead of an endless retry', async () => {
  const nowhere = process.platform === 'linux' ? '/proc/aigw/data' : '/dev/null/aigw'
  await expect(makeDataDir(nowhere)).rejects.toThrow('Cannot create the data directory')
})

test('a data directory is created with its parents, and again without effect', async () => {
  const parent = await mkdtemp(join(tmpdir(), 'aigw-nested-'))
  const dataDir = join(parent, 'a', 'b')
  await makeDataDir(dataDir)
  await makeDataDir(dataDir)
  expect((await stat(dataDir)).mode & 0o777).toBe(0o700)
  await rm(parent, { recursive: true })
})
