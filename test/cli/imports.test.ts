import { readdir, readFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../../src/cli', import.meta.url))

/** Modules that a file loads at once when it is loaded; types and `import()` do not count. */
async function staticImports(path: string): Promise<string[]> {
  const source = await readFile(path, 'utf8')
  const found = source.matchAll(/^(?:import|export) (?!type )(?:[^'"]*? from )?['"]([^'"]+)['"]/gms)
  return [...found]
    .filter(([statement]) => !/^import \{(\s*type [^,}]+,?)+\s*\}/.test(statement))
    .map(([, name = '']) => name)
}

async function closure(start: string[]): Promise<{ files: Set<string>; packages: Set<string> }> {
  const files = new Set<string>()
  const packages = new Set<string>()
  const visit = async (path: string): Promise<void> => {
    if (files.has(path)) return
    files.add(path)
    for (const name of await staticImports(path)) {
      if (name.startsWith('.')) await visit(join(dirname(path), name))
      else packages.add(name)
    }
  }
  for (const path of start) await visit(path)
  return { files, packages }
}

test('help loads the argument parser and a few small files, and no other package', async () => {
  const { files, packages } = await closure([join(root, 'main.ts'), join(root, 'program.ts')])
  expect([...packages].filter((name) => !name.startsWith('node:'))).toEqual(['commander'])
  expect(files.size).toBeLessThanOrEqual(9)
})

test('version loads nothing but the name and number of the package', async () => {
  const { files } = await closure([join(root, 'main.ts')])
  expect([...files].map((path) => relative(root, path)).sort()).toEqual(['main.ts', 'package.ts'])
})

test('no file of the CLI loads the daemon, its driver or the schemas', async () => {
  const names = await readdir(root, { recursive: true })
  const { files, packages } = await closure(
    names.filter((name) => name.endsWith('.ts')).map((name) => join(root, name)),
  )
  expect([...files].filter((path) => /\/(daemon|wire)\//.test(path))).toEqual([])
  for (const heavy of ['zod', 'sqlite3', 'kysely', 'pg', 'undici']) expect(packages).not.toContain(heavy)
})

test('the help of webhook endpoints loads neither the catalogue of events nor signing', async () => {
  const { files } = await closure([join(root, 'commands/webhooks/commands.ts')])
  const names = [...files].map((path) => path.split('/').at(-1))
  for (const late of [
    'event-catalog.ts',
    'event-names.ts',
    'event-samples.ts',
    'nearest-name.ts',
    'webhook-signature.ts',
  ]) {
    expect(names).not.toContain(late)
  }
})
