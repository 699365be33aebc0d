import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

// CI counts the tests of several runs from their reports.
const report = process.env.AIGW_TEST_REPORT

const HANG_MS = 600_000

/** Files that take long. If they began last, one worker would be busy after all others had ended. */
const LONG = ['/e2e/', '/access/', '/faults/', '/receivers/', '/hostile-text.', '/cli/process.', '/verification.']

class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isLong = ({ moduleId }: TestSpecification) => LONG.some((part) => moduleId.includes(part))
    const sorted = await super.sort(files)
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))]
  }
}

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    environment: 'node',
    pool: 'forks',
    globalSetup: ['test/global-setup.ts'],
    setupFiles: ['test/leaks.ts'],
    // These only end a test that hangs. No test sets its own, because a slow machine must not reach it.
    testTimeout: HANG_MS,
    hookTimeout: HANG_MS,
    sequence: { sequencer: LongFirst },
    // Half of a test's time is waiting; the default leaves one of two cores unused.
    maxWorkers: '100%',
    ...(report && { reporters: ['default', 'json'], outputFile: { json: report } }),
  },
})
