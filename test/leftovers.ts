import { sharedResources } from './shared-resources.ts'

type Closable = { close(): Promise<void> }

const opened = new Set<Closable>()

/** Closes this after the running test, unless the test does it or its file shares it: one failure must not become two. */
export function closeAfterTest(resource: Closable): void {
  opened.add(resource)
}

/** The test has closed it. */
export function wasClosed(resource: Closable): void {
  opened.delete(resource)
}

/** Closes what tests have left open, the newest first. Called by `leaks.ts`, because helper modules outlive a test file. */
export async function closeLeftovers(): Promise<void> {
  for (const resource of [...opened].reverse()) {
    if (sharedResources.has(resource)) continue
    opened.delete(resource)
    await resource.close()
  }
}
