const TICK_MS = 10

/** A clock of the time in which this process could run: what a busy machine keeps from it does not count. */
export type AttentiveClock = { nowMs(): number; stop(): void }

export function startAttentiveClock(): AttentiveClock {
  let countedMs = 0
  let tickedMs = performance.now()
  let cpuAtTick = process.cpuUsage()
  // A tick that comes late stands for two at most, or for what the process has worked meanwhile.
  function sinceTick(): number {
    const { user, system } = process.cpuUsage(cpuAtTick)
    return Math.min(performance.now() - tickedMs, Math.max(2 * TICK_MS, (user + system) / 1000))
  }
  const timer = setInterval(() => {
    countedMs += sinceTick()
    tickedMs = performance.now()
    cpuAtTick = process.cpuUsage()
  }, TICK_MS)
  return { nowMs: () => countedMs + sinceTick(), stop: () => clearInterval(timer) }
}
