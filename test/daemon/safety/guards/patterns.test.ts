import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkSync } from 'recheck'
import { parseSync } from 'rolldown/utils'
import { expect, test } from 'vitest'
import { BOUNDED_PATTERNS, MADE_PATTERNS } from './bounded-patterns.ts'

const ROOT = join(import.meta.dirname, '../../../..')
const GUARDS = join(ROOT, 'src/daemon/safety/guards')
/** Proofs take long and stay valid, so they are cached. */
const PROVEN = join(ROOT, 'node_modules/.cache/proven-patterns')

type Literal = { source: string; flags: string }

/** Every pattern literal in a file, and the number of patterns built from strings. */
function patternsOf(file: string): { literals: Literal[]; made: number } {
  const literals: Literal[] = []
  let made = 0
  visit(parseSync(file, readFileSync(file, 'utf8')).program, (node) => {
    if (node.type === 'Literal' && isRecord(node.regex)) {
      literals.push({ source: String(node.regex.pattern), flags: String(node.regex.flags) })
    }
    if (node.type === 'NewExpression' && isRecord(node.callee) && node.callee.name === 'RegExp') made += 1
  })
  return { literals, made }
}

function visit(value: unknown, see: (node: Record<string, unknown>) => void): void {
  if (Array.isArray(value)) for (const one of value) visit(one, see)
  else if (isRecord(value)) {
    see(value)
    for (const one of Object.values(value)) visit(one, see)
  }
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !(value instanceof RegExp)

/** The search for a slow text is bounded by steps, because time limits would depend on the machine. */
const PATIENTLY = { timeout: 300_000, attackTimeout: null, incubationTimeout: null, seedingTimeout: null } as const

function isLinear({ source, flags }: Literal): boolean {
  const proof = join(PROVEN, createHash('sha256').update(`${flags}/${source}`).digest('hex'))
  if (existsSync(proof)) return true
  if (checkSync(source, flags, PATIENTLY).status !== 'safe') return false
  mkdirSync(PROVEN, { recursive: true })
  writeFileSync(proof, '')
  return true
}

const FILES = readdirSync(GUARDS, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'))

test.each(FILES)('patterns in %s take linear time, or have a limit', (name) => {
  const { literals, made } = patternsOf(join(GUARDS, name))
  const unbounded = literals.filter((literal) => !BOUNDED_PATTERNS.has(literal.source) && !isLinear(literal))
  expect(unbounded).toEqual([])
  // Patterns built from strings are not visible here; their authors state why they are linear.
  expect(made).toBe(MADE_PATTERNS[name]?.count ?? 0)
})

test('every limit belongs to an existing pattern', () => {
  const sources = new Set(FILES.flatMap((name) => patternsOf(join(GUARDS, name)).literals.map(({ source }) => source)))
  expect([...BOUNDED_PATTERNS.keys()].filter((source) => !sources.has(source))).toEqual([])
  expect(Object.keys(MADE_PATTERNS).filter((name) => !FILES.includes(name))).toEqual([])
})
