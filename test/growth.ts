import { expect } from 'vitest'

/** Work of the collector and the compiler that does not grow with the input. */
const NOISE_MICROSECONDS = 500_000

/**
 * Expects that `run(1)` takes CPU time in proportion to `run(0.1)`: the whole input and a tenth of it. Quadratic work would take a
 * hundred times as long. A ratio within one process does not depend on the machine or on its load.
 */
export async function expectProportionate(run: (part: 0.1 | 1) => unknown): Promise<void> {
  const before = process.cpuUsage()
  await run(0.1)
  const tenth = process.cpuUsage(before)
  const between = process.cpuUsage()
  await run(1)
  const whole = process.cpuUsage(between)
  expect(whole.user).toBeLessThan(tenth.user * 40 + NOISE_MICROSECONDS)
}
