/** What the name of a policy may look like, and so its id. */
export const POLICY_NAME = /^[\p{L}\p{N}][\p{L}\p{M}\p{N} ()&+',.:_-]*$/u

/**
 * The id of a policy: its name in lower case, with hyphens for spaces (named-endpoints §13). An id is its own id, so whatever
 * a caller writes, name or id and in any case, leads to the same policy.
 */
export const toPolicyId = (name: string): string => name.trim().normalize('NFC').toLowerCase().replace(/ +/g, '-')
