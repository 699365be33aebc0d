import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import { closeLeftovers } from './leftovers.ts'
import { secretWatch } from './secret-watch.ts'
import { sharedResources } from './shared-resources.ts'

/** Types of handles that tests must close. */
const WATCHED = ['TCPSocketWrap', 'TCPServerWrap', 'ProcessWrap', 'Timeout']

// Each test file has its own temporary directory, so that leftover files are detected and removed.
const directoryOfRun = tmpdir()
const scratch = mkdtempSync(join(directoryOfRun, 'aigw-worker-'))
process.env.TMPDIR = scratch
// Files may share a process.
secretWatch.reset()

/** Handles that are open after this time count as leaks. */
const LEAK_MS = 60_000
const nextFewMilliseconds = () => new Promise((resolve) => setTimeout(resolve, 5))

let before: Record<string, number> = {}

beforeAll(() => {
  before = openHandles()
})

// Hooks run in reverse order, so these run after the hooks of the test file.
afterEach(async () => {
  if (sharedResources.size === 0) await expectNothingLeft()
})
afterEach(closeLeftovers)
afterAll(expectNothingLeft)
afterAll(() => expect(secretWatch.takeFound(), 'secrets found in plain text in outputs or stores').toEqual([]))
afterAll(() => {
  const left = readdirSync(scratch)
  rmSync(scratch, { recursive: true })
  process.env.TMPDIR = directoryOfRun
  expect(left, 'files left in the temporary directory').toEqual([])
})

async function expectNothingLeft(): Promise<void> {
  // A closed handle disappears some loop turns later. A socket also waits for its peer, which may be a process that
  // gets little CPU on a busy machine.
  const giveUpAt = performance.now() + LEAK_MS
  for (let turn = 0; Object.keys(leaked()).length > 0 && (turn < 500 || performance.now() < giveUpAt); turn++) {
    await (turn < 500 ? new Promise((resolve) => setImmediate(resolve)) : nextFewMilliseconds())
  }
  expect(leaked(), 'handles that were left open').toEqual({})
}

function openHandles(): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const kind of process.getActiveResourcesInfo()) {
    if (WATCHED.includes(kind)) counts[kind] = (counts[kind] ?? 0) + 1
  }
  return counts
}

function leaked(): Record<string, number> {
  const now = openHandles()
  return Object.fromEntries(
    Object.entries(now)
      .map(([kind, count]) => [kind, count - (before[kind] ?? 0)] as const)
      .filter(([, more]) => more > 0),
  )
}
