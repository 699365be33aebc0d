/** What the tests of a file share on purpose; while it is open, its connections are no leak. */
export const sharedResources = new Set<object>()
