/** Formats a name as one shell word. Adds single quotes if they are needed (POSIX, Quoting). */
export const toShellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
