import { z } from 'zod'
import type { ModelTimeouts } from '../models/config.ts'
import { section, valueFrom } from './section.ts'
import { parseDuration } from './values.ts'

/** The bounds for an attempt's timeouts in a configuration file. */
const CONFIGURED_TIMEOUT_MS = { min: 1_000, max: 3_600_000 } as const

/** The schema of one timeout. */
export const timeLimit = z
  .string({ error: 'must be a duration, such as 300s' })
  .transform(valueFrom((duration) => parseDuration(duration, CONFIGURED_TIMEOUT_MS)))

/** Creates the schema of `timeouts` in an entry under `providers:`. */
export const timeoutsEntry = () =>
  z.record(
    z.string(),
    section(
      { first_token: timeLimit.optional(), attempt: timeLimit.optional(), silence: timeLimit.optional() },
      'must contain first_token, attempt or silence, such as {silence: 10m}',
    ).transform(
      ({ first_token: firstTokenMs, attempt: attemptMs, silence: silenceMs }): ModelTimeouts => ({
        ...(firstTokenMs !== undefined && { firstTokenMs }),
        ...(attemptMs !== undefined && { attemptMs }),
        ...(silenceMs !== undefined && { silenceMs }),
      }),
    ),
    { error: 'must map model names, or "*", to time limits' },
  )
