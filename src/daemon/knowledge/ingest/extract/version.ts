/** Increase this if files are read or cut differently. The next training then replaces the older results. */
export const EXTRACTION_VERSION = 3
