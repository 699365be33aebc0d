/**
 * Increase this number whenever a change alters how files are read or cut. The next training then replaces the older
 * results.
 */
export const EXTRACTION_VERSION = 3
