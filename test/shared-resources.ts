/** Resources that tests of a file share. While some are open, their connections are not leaks. */
export const sharedResources = new Set<object>()
