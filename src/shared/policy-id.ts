/** Valid policy names. Every policy id is also a valid name. */
export const POLICY_NAME = /^[\p{L}\p{N}][\p{L}\p{M}\p{N} ()&+',.:_-]*$/u

/**
 * Returns the id of a policy: its name in lower case, with hyphens for spaces. An id maps to itself, so names and ids
 * in upper or lower case refer to the same policy.
 */
export const toPolicyId = (name: string): string => name.trim().normalize('NFC').toLowerCase().replace(/ +/g, '-')
