import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { LONG, OWN_PROCESS, patternsOf } from './test/run-lists.ts'

// CI counts the tests of several runs from JSON reports.
const report = process.env.AIGW_TEST_REPORT

const HANG_MS = 600_000

class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isLong = ({ moduleId }: TestSpecification) => LONG.some((part) => moduleId.includes(part))
    const sorted = await super.sort(files)
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))]
  }
}

const run = {
  globalSetup: ['test/global-setup.ts'],
  sequence: { sequencer: LongFirst },
  // Tests wait half of the time. The default would leave one of two cores unused.
  maxWorkers: '100%',
  ...(report && { reporters: ['default', 'json'], outputFile: { json: report } }),
}

const common = {
  environment: 'node',
  pool: 'forks' as const,
  setupFiles: ['test/leaks.ts'],
  // Timeouts only end tests that hang. No test sets its own timeout, because a slow machine must never reach it.
  testTimeout: HANG_MS,
  hookTimeout: HANG_MS,
}

export default defineConfig({
  test: {
    ...run,
    projects: [
      { test: { ...common, name: 'own process', include: patternsOf(OWN_PROCESS) } },
      // Loading the daemon takes longer than most test files, so these files share processes.
      {
        test: {
          ...common,
          name: 'shared process',
          include: ['test/**/*.test.ts'],
          exclude: patternsOf(OWN_PROCESS),
          isolate: false,
        },
      },
    ],
  },
})

/** Runs these test files and directories, each file in its own process. */
export const isolated = (paths: readonly string[]) =>
  defineConfig({ test: { ...run, ...common, include: patternsOf(paths) } })
