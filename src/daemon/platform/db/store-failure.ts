// Records which errors mean that the store is unavailable. The drivers mark these errors, because their codes alone are
// ambiguous: an ECONNRESET may come from the store or from a provider.
const marked = new WeakSet<Error>()

/**
 * Marks a driver error that means that the store does not answer, is locked, is full or cannot be written. Returns the
 * error.
 */
export function markStoreFailure<T>(error: T): T {
  if (error instanceof Error) marked.add(error)
  return error
}

/** Whether a request failed because the store is unavailable. The request can be retried. */
export function isStoreFailure(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) if (marked.has(cause)) return true
  return false
}
