import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import { closeLeftovers } from './leftovers.ts'
import { secretWatch } from './secret-watch.ts'
import { sharedResources } from './shared-resources.ts'

/** Kinds of handle that a test may not leave open. */
const WATCHED = ['TCPSocketWrap', 'TCPServerWrap', 'ProcessWrap', 'Timeout']

// A temporary directory for each test file, so that what its tests leave there can be seen, and is removed anyway.
const directoryOfRun = tmpdir()
const scratch = mkdtempSync(join(directoryOfRun, 'aigw-worker-'))
process.env.TMPDIR = scratch
// Files may share a process.
secretWatch.forget()

/** What is still open by then is taken for left open. */
const LEAK_MS = 60_000
const nextFewMilliseconds = () => new Promise((resolve) => setTimeout(resolve, 5))

let before: Record<string, number> = {}

beforeAll(() => {
  before = openHandles()
})

// Registered first, so these run after the hooks of the test file itself.
afterEach(async () => {
  if (sharedResources.size === 0) await expectNothingLeft()
})
afterEach(closeLeftovers)
afterAll(expectNothingLeft)
afterAll(() => expect(secretWatch.takeFound(), 'secrets that were told or kept in the clear').toEqual([]))
afterAll(() => {
  const left = readdirSync(scratch)
  rmSync(scratch, { recursive: true })
  process.env.TMPDIR = directoryOfRun
  expect(left, 'files that were left in the temporary directory').toEqual([])
})

async function expectNothingLeft(): Promise<void> {
  // A closed handle is gone some turns of the loop later, and a socket once its other end has had its turn: on a busy machine,
  // that of another process may have to wait for it.
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
