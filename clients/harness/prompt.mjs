// The mark in a prompt that tells the simulated provider what to do: [[scenario:tools-10:cell:options]].
// `cell` identifies one run of one scenario. `options` is JSON in base64url, and may be absent.
const MARK = /\[\[scenario:([a-z0-9-]+):([a-z0-9-]+)(?::([\w-]+))?\]\]/g

/**
 * Appends the mark to a prompt.
 * @param {{tool?: string, input?: object}} [options] the tool to call and its input, for a client with its own tools.
 * `$step` in a text of `input` stands for the number of the step. By default `do_step` is called with `{step}`.
 */
export function markedPrompt(text, { scenario, cell, options }) {
  const given = options ? `:${Buffer.from(JSON.stringify(options)).toString('base64url')}` : ''
  return `${text}\n\n[[scenario:${scenario}:${cell}${given}]]`
}

/** Returns the last mark of a text, or undefined. */
export function readMark(text) {
  const match = [...text.matchAll(MARK)].at(-1)
  if (!match) return undefined
  const [, scenario, cell, options] = match
  return { scenario, cell, options: options ? JSON.parse(Buffer.from(options, 'base64url').toString()) : {} }
}
