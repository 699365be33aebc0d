import { z } from 'zod'
import type { PriceConfig } from '../models/config.ts'
import { section } from './section.ts'

/** The highest price that can be configured for a million tokens, in dollars. */
const PRICE_MAX = 1_000
/** The highest number of points that can be configured for one answer of a model. */
const POINTS_PER_ANSWER_MAX = 1_000

const dollars = z
  .number({ error: 'must be a number of dollars per million tokens' })
  .min(0, { error: 'must not be negative' })
  .max(PRICE_MAX, { error: `must be at most ${PRICE_MAX} dollars per million tokens` })

const points = z
  .int({ error: 'must be a whole number of points, or 0 for none' })
  .min(0, { error: 'must not be negative' })
  .max(POINTS_PER_ANSWER_MAX, { error: `must be at most ${POINTS_PER_ANSWER_MAX}` })

/** Creates the schema of `prices` in an entry under `providers:`. */
export const pricesEntry = () =>
  z.record(
    z.string(),
    section(
      {
        input: dollars,
        output: dollars,
        cache_read: dollars.optional(),
        cache_write: dollars.optional(),
        cache_write_1h: dollars.optional(),
        points: points.optional(),
      },
      'must contain dollars per million tokens, such as {input: 0.5, output: 1.5}',
    ).transform(
      ({
        input,
        output,
        cache_read: cacheRead,
        cache_write: cacheWrite,
        cache_write_1h: cacheWriteHour,
        points: ofAnswer,
      }): PriceConfig => ({
        input,
        output,
        ...(cacheRead !== undefined && { cacheRead }),
        ...(cacheWrite !== undefined && { cacheWrite }),
        ...(cacheWriteHour !== undefined && { cacheWriteHour }),
        ...(ofAnswer !== undefined && { points: ofAnswer }),
      }),
    ),
    { error: 'must map model names, or "*", to prices' },
  )
