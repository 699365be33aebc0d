import { defineConfig } from 'vitest/config'

// CI counts the tests of several runs from their reports.
const report = process.env.AIGW_TEST_REPORT

export default defineConfig({
  test: {
    environment: 'node',
    pool: 'forks',
    // Half of a test's time is waiting; the default leaves one of two cores unused.
    maxWorkers: '100%',
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/global-setup.ts'],
    setupFiles: ['test/leaks.ts'],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    ...(report && { reporters: ['default', 'json'], outputFile: { json: report } }),
  },
})
