import { z } from 'zod'
import { SCRIPT_FAILURES, SCRIPT_FINISHES, type ScriptStep, type Scripts } from '../models/config.ts'
import { section, valueFrom } from './section.ts'
import { parseDuration } from './values.ts'

const SCRIPT_NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/
const A_STEP =
  'must be one step: {wait: 200ms}, {text: "…"}, {reasoning: "…"}, {tool_call: {name: …, arguments: "{}"}}, ' +
  `{usage: {input: 3, output: 5}}, {finish: ${SCRIPT_FINISHES.join(' | ')}}, {fail: ${SCRIPT_FAILURES.join(' | ')}}, ` +
  '{break: true} or {stall: true}'

const words = z.string().min(1)
const tokens = z.int().min(0)

const step: z.ZodType<ScriptStep> = z.union(
  [
    z.strictObject({ wait: z.string().transform(valueFrom(parseDuration)) }),
    z.strictObject({ text: words }),
    z.strictObject({ reasoning: words }),
    z.strictObject({ tool_call: z.strictObject({ name: words, arguments: z.string() }) }),
    z.strictObject({ usage: z.strictObject({ input: tokens, output: tokens }) }),
    z.strictObject({ finish: z.enum(SCRIPT_FINISHES) }),
    z.strictObject({ fail: z.enum(SCRIPT_FAILURES), retry_after: tokens.optional() }),
    z.strictObject({ break: z.literal(true) }),
    z.strictObject({ stall: z.literal(true) }),
  ],
  { error: A_STEP },
)

/**
 * Creates the schema of the entry `local` under `providers:`. The schema's output contains the scripts of the models
 * `local/script/<name>`.
 */
export function localEntry() {
  const scripts: z.ZodType<Scripts> = z.record(
    z.string().regex(SCRIPT_NAME),
    z.array(step, { error: 'must be a list of steps' }).min(1, 'is empty; write a step, such as {finish: stop}'),
    {
      error: ({ code }) =>
        code === 'invalid_key'
          ? 'must be a name of a-z, 0-9, dot, dash and underscore'
          : 'must map script names to lists of steps',
    },
  )
  return section(
    {
      kind: z.literal('local', 'must be local; use another name for your own provider').optional(),
      scripts: scripts.optional(),
    },
    'is built in and accepts only scripts',
  ).transform(({ scripts }): Scripts | undefined => scripts)
}
