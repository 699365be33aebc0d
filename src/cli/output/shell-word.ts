/** A name as it can be typed into a shell: as it is, or in single quotes (POSIX, Quoting). */
export const toShellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
