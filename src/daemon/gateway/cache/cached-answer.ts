/** A complete answer, and the request whose model call created it. */
export type CachedAnswer = {
  /** The bundle id of that request. */
  original: string
  storedAtMs: number
  /** The answer as the operation recorded it. */
  recorded: string
}
