/** Raised when files are read or cut in another way, so that the next training replaces what was read the old way. */
export const EXTRACTION_VERSION = 3
