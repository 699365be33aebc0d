/** How long other work waits for this one. */
const SLICE_MS = 10

/** For long work: what is to be awaited now and then, which lets others run when this work has had its slice. */
export function createRests(): () => Promise<void> | undefined {
  let sinceMs = performance.now()
  return () => {
    if (performance.now() - sinceMs < SLICE_MS) return undefined
    return new Promise((resolve) => {
      setImmediate(() => {
        sinceMs = performance.now()
        resolve()
      })
    })
  }
}
