/** A name as a word for a shell: unchanged, or in single quotes (POSIX, Quoting). */
export const toShellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
