import { expect } from 'vitest'

/** Allowance for garbage collection and JIT compilation, which do not grow with the input. */
const NOISE_MICROSECONDS = 500_000

/**
 * Expects that CPU time grows linearly: `run(1)` processes the whole input, `run(0.1)` a tenth. Quadratic work would
 * take a hundred times as long. Both run in one process, so the ratio does not depend on the machine or its load.
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
