import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { linesOf } from '../../../src/cli/evidence/lines.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aigw-lines-'))
})
afterAll(() => rm(folder, { recursive: true }))

async function linesIn(text: string): Promise<string[]> {
  const path = join(folder, 'lines')
  await writeFile(path, text)
  const lines: string[] = []
  for await (const line of linesOf(path)) lines.push(line.toString())
  return lines
}

test('only a newline ends a line', async () => {
  expect(await linesIn('a\rb\r\nc\u2028d\u2029e\u0085f\n\ng')).toEqual(['a\rb\r', 'c\u2028d\u2029e\u0085f', '', 'g'])
  expect(await linesIn('')).toEqual([])
  expect(await linesIn('\n')).toEqual([''])
})

test('lines are whole wherever a chunk of the file ends', async () => {
  const line = fc
    .tuple(fc.constantFrom('é', '€', '😀', 'a'), fc.nat(100_000))
    .map(([char, count]) => char.repeat(count))
  await fc.assert(
    fc.asyncProperty(fc.array(line, { maxLength: 5 }), async (lines) => {
      expect(await linesIn(lines.map((text) => `${text}\n`).join(''))).toEqual(lines)
    }),
    { numRuns: 20 },
  )
})
