import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { LONG, OWN_PROCESS, patternsOf } from './test/run-lists.ts'

// CI counts the tests of several runs from their reports.
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
  // Half of a test's time is waiting; the default leaves one of two cores unused.
  maxWorkers: '100%',
  ...(report && { reporters: ['default', 'json'], outputFile: { json: report } }),
}

const common = {
  environment: 'node',
  pool: 'forks' as const,
  setupFiles: ['test/leaks.ts'],
  // These only end a test that hangs. No test sets its own, because a slow machine must not reach it.
  testTimeout: HANG_MS,
  hookTimeout: HANG_MS,
}

export default defineConfig({
  test: {
    ...run,
    projects: [
      { test: { ...common, name: 'own process', include: patternsOf(OWN_PROCESS) } },
      // Loading the daemon takes longer than most files, so these files share the processes of the run.
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

/** These files and directories of tests, each file in a process of its own. */
export const isolated = (paths: readonly string[]) =>
  defineConfig({ test: { ...run, ...common, include: patternsOf(paths) } })
