/** Increase this when files are read or cut differently: the next training then replaces the older results. */
export const EXTRACTION_VERSION = 3
