import { defineConfig } from 'vitest/config'

// CI counts the tests of several runs from their reports.
const report = process.env.AIGW_TEST_REPORT

const common = {
  environment: 'node',
  pool: 'forks' as const,
  setupFiles: ['test/leaks.ts'],
  // A test that hangs is found out; one on a busy machine has time.
  testTimeout: 120_000,
  hookTimeout: 120_000,
}

/** Tests of faults give models a second, so they have the machine to themselves. */
const FAULTS = 'test/faults/**/*.test.ts'

export default defineConfig({
  test: {
    globalSetup: ['test/global-setup.ts'],
    ...(report && { reporters: ['default', 'json'], outputFile: { json: report } }),
    projects: [
      {
        test: {
          ...common,
          name: 'tests',
          include: ['test/**/*.test.ts'],
          exclude: [FAULTS],
          // Half of a test's time is waiting; the default leaves one of two cores unused.
          maxWorkers: '100%',
          sequence: { groupOrder: 0 },
        },
      },
      { test: { ...common, name: 'faults', include: [FAULTS], maxWorkers: 1, sequence: { groupOrder: 1 } } },
    ],
  },
})
