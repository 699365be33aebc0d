import { readdirSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { LONG, OWN_PROCESS, RUNTIME } from './run-lists.ts'

const testFiles = readdirSync(new URL('.', import.meta.url), { recursive: true })
  .map((path) => `/test/${String(path)}`)
  .filter((path) => path.endsWith('.test.ts'))

describe('the lists of test files', () => {
  it.each([...Object.keys(RUNTIME), ...OWN_PROCESS])('%s exists', (listed) => {
    expect(testFiles.some((path) => path === `/${listed}` || path.startsWith(`/${listed}/`))).toBe(true)
  })

  it.each(LONG)('%s is part of an existing path', (part) => {
    expect(testFiles.some((path) => path.includes(part))).toBe(true)
  })
})
