import { spawnSync } from 'node:child_process'
import { appendFileSync, cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')

/** Forbidden imports by the rule that must reject them. Type imports count like all others. */
const FORBIDDEN = {
  'platform-imports-downwards-only': ['daemon/platform/log.ts', "export type { Route } from '../records/config.ts'"],
  'identity-imports-downwards-only': ['daemon/identity/users/store.ts', "import '../../safety/policies/policies.ts'"],
  'identity-is-entered-by-its-front': ['daemon/gateway/config.ts', "export * from '../identity/keys/rights.ts'"],
  'shared-imports-nothing-of-ours': ['shared/time.ts', "export type { Log } from '../daemon/platform/log.ts'"],
  'cli-without-daemon': ['cli/main.ts', "import '../daemon/platform/log.ts'"],
  'no-cycles': ['cli/io.ts', "export type { Output } from './output/output.ts'"],
} as const

let copy: string
beforeAll(() => {
  copy = mkdtempSync(join(tmpdir(), 'aigw-boundaries-'))
  cpSync(join(ROOT, 'src'), join(copy, 'src'), { recursive: true })
  for (const name of ['.dependency-cruiser.mjs', 'package.json']) cpSync(join(ROOT, name), join(copy, name))
  symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
  for (const [file, line] of Object.values(FORBIDDEN)) appendFileSync(join(copy, 'src', file), `${line}\n`)
})
afterAll(() => rmSync(copy, { recursive: true }))

test('the boundary check fails for each forbidden import', () => {
  const program = join(ROOT, 'node_modules/dependency-cruiser/bin/dependency-cruise.mjs')
  const { status, stdout } = spawnSync(process.execPath, [program, '--config', '.dependency-cruiser.mjs', 'src'], {
    cwd: copy,
    encoding: 'utf8',
  })
  const broken = [...stdout.matchAll(/error ([a-z-]+):/g)].map(([, rule]) => rule)
  expect(new Set(broken)).toEqual(new Set(Object.keys(FORBIDDEN)))
  // A cycle is printed as its files, one after the other, and may begin with any of them.
  for (const [rule, [file]] of Object.entries(FORBIDDEN)) {
    expect(stdout).toMatch(new RegExp(`error ${rule}: (src/\\S+ →\\s+)*src/${file}\\s`))
  }
  expect(status).toBeGreaterThan(0)
})
