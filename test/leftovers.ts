import { sharedResources } from './shared-resources.ts'

type Closable = { close(): Promise<void> }

const opened = new Set<Closable>()

/** Closes the resource after the running test, unless it is closed or shared. So one failure does not cause another. */
export function closeAfterTest(resource: Closable): void {
  opened.add(resource)
}

/** Marks the resource as closed by the test. */
export function wasClosed(resource: Closable): void {
  opened.delete(resource)
}

/** Closes leftover resources, newest first. Called by `leaks.ts`, because helper modules outlive a test file. */
export async function closeLeftovers(): Promise<void> {
  for (const resource of [...opened].reverse()) {
    if (sharedResources.has(resource)) continue
    opened.delete(resource)
    await resource.close()
  }
}
