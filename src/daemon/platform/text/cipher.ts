/** Whether a value can be encrypted or signed data: base64 in either alphabet. */
export const isCipher = (value: unknown): boolean => typeof value === 'string' && /^[\w+/-]+={0,2}$/.test(value)

/** Whether a value can be an id or a keyword in sealed data. */
export const isSealedName = (value: unknown): boolean => typeof value === 'string' && /^[\w.:-]{1,256}$/.test(value)
