import { execFile } from 'node:child_process'
import { lstat, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, unlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { CliError, EXIT } from '../../../src/cli/errors.ts'
import { openSecretFile } from '../../../src/cli/output/secret-file.ts'

let folder: string
let path: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aigw-cli-'))
  path = join(folder, 'key')
})
afterEach(() => rm(folder, { recursive: true }))

const modeOf = async (file: string) => ((await stat(file)).mode & 0o777).toString(8)
const failureOf = (opened: Promise<unknown>) =>
  opened.then(
    () => expect.unreachable('it was opened'),
    (error: unknown) => (error instanceof CliError ? error : expect.unreachable(String(error))),
  )

test('contains the secret and a newline, and has mode 0600 from the start', async () => {
  const file = await openSecretFile(path, { force: false })
  expect(await modeOf(path)).toBe('600')
  await file.write('sk-secret')
  expect(await readFile(path, 'utf8')).toBe('sk-secret\n')
  expect(await modeOf(path)).toBe('600')
})

test('never overwrites a file by itself', async () => {
  await writeFile(path, 'precious')
  expect(await failureOf(openSecretFile(path, { force: false }))).toMatchObject({
    exitCode: EXIT.usage,
    hints: ['Replace it:  --force'],
  })
  expect(await readFile(path, 'utf8')).toBe('precious')
})

test('with force it replaces a file only when the secret is there', async () => {
  await writeFile(path, 'precious', { mode: 0o644 })
  const discarded = await openSecretFile(path, { force: true })
  await discarded.discard()
  expect(await readFile(path, 'utf8')).toBe('precious')
  const file = await openSecretFile(path, { force: true })
  expect(await readFile(path, 'utf8')).toBe('precious')
  await file.write('sk-secret')
  expect(await readFile(path, 'utf8')).toBe('sk-secret\n')
  expect(await modeOf(path)).toBe('600')
  expect(await readdir(folder)).toEqual(['key'])
})

test('removes the file when it is discarded', async () => {
  const file = await openSecretFile(path, { force: false })
  await file.discard()
  expect(await readdir(folder)).toEqual([])
})

test('reports a missing folder, or a folder of that name, before the secret exists', async () => {
  const failure = await failureOf(openSecretFile(join(folder, 'nothing/key'), { force: false }))
  expect(failure.exitCode).toBe(EXIT.error)
  expect(failure.message).toContain('no such file or directory')
  expect(await failureOf(openSecretFile(folder, { force: true }))).toMatchObject({ exitCode: EXIT.usage })
})

test('with force it replaces only files: no device, folder, pipe, link to one of these, or broken link', async () => {
  const pipe = join(folder, 'pipe')
  await promisify(execFile)('mkfifo', [pipe])
  const linkTo = async (target: string, name: string) => {
    await symlink(target, join(folder, name))
    return join(folder, name)
  }
  const links = [
    await linkTo('/dev/null', 'to-device'),
    await linkTo(folder, 'to-folder'),
    await linkTo('gone', 'to-gone'),
  ]
  const before = await readdir(folder)
  for (const taken of ['/dev/null', folder, pipe, ...links]) {
    expect(await failureOf(openSecretFile(taken, { force: true })), taken).toMatchObject({ exitCode: EXIT.usage })
  }
  expect((await stat('/dev/null')).isCharacterDevice()).toBe(true)
  expect(await readdir(folder)).toEqual(before)
})

test('with force it replaces the file that a link names, and the link stays', async () => {
  await mkdir(join(folder, 'there'))
  const target = join(folder, 'there/key')
  await writeFile(target, 'precious', { mode: 0o644 })
  await symlink('there/key', path)
  await (await openSecretFile(path, { force: true })).write('sk-secret')
  expect((await lstat(path)).isSymbolicLink()).toBe(true)
  expect(await readFile(target, 'utf8')).toBe('sk-secret\n')
  expect(await modeOf(target)).toBe('600')
  expect(await readdir(join(folder, 'there'))).toEqual(['key'])
})

test('a file that cannot be replaced is changed in place, and is readable by its owner only', async () => {
  await writeFile(path, 'a text that is longer than the secret', { mode: 0o644 })
  const file = await openSecretFile(path, { force: true })
  await unlink(`${path}.${process.pid}.new`)
  await file.write('sk-secret')
  expect(await readFile(path, 'utf8')).toBe('sk-secret\n')
  expect(await modeOf(path)).toBe('600')
})

test('a secret that cannot replace its file stays in a file next to it, which the error names', async () => {
  await writeFile(path, 'precious')
  const file = await openSecretFile(path, { force: true })
  await unlink(path)
  await mkdir(path)
  const draft = `${path}.${process.pid}.new`
  expect(await failureOf(file.write('sk-secret'))).toMatchObject({
    exitCode: EXIT.error,
    hints: [`The secret is in:  ${draft}`],
  })
  expect(await readFile(draft, 'utf8')).toBe('sk-secret\n')
  expect(await modeOf(draft)).toBe('600')
})
