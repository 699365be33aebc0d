/** One server-sent event with JSON data, with a name if the interface has names. */
export const sse = (data, event) => `${event ? `event: ${event}\n` : ''}data: ${JSON.stringify(data)}\n\n`

/** A data URL. */
export const dataUrl = (mime, base64) => `data:${mime};base64,${base64}`
