import { defineConfig } from 'vitest/config'

// CI counts the tests of several runs from their reports.
const report = process.env.AIGW_TEST_REPORT

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    environment: 'node',
    pool: 'forks',
    globalSetup: ['test/global-setup.ts'],
    setupFiles: ['test/leaks.ts'],
    // A time limit only ends a test that hangs; a slow machine must not reach it.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // Half of a test's time is waiting; the default leaves one of two cores unused.
    maxWorkers: '100%',
    ...(report && { reporters: ['default', 'json'], outputFile: { json: report } }),
  },
})
