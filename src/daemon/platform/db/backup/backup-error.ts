/** A backup that cannot be made, read or restored. The message says what to do. Nothing was changed. */
export class BackupError extends Error {
  override name = 'BackupError'
}

/** Returns the message of an error, for the message of another error. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
