import { z } from 'zod'
import type { PriceConfig, TierPriceConfig } from '../models/config.ts'
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

const tokenPrices = {
  input: dollars,
  output: dollars,
  cache_read: dollars.optional(),
  cache_write: dollars.optional(),
  cache_write_1h: dollars.optional(),
}
const EXAMPLE = 'must contain dollars per million tokens, such as {input: 0.5, output: 1.5}'
const tier = section(tokenPrices, EXAMPLE)

function toTokenPrices({
  input,
  output,
  cache_read: cacheRead,
  cache_write: cacheWrite,
  cache_write_1h: cacheWriteHour,
}: z.infer<typeof tier>): TierPriceConfig {
  return {
    input,
    output,
    ...(cacheRead !== undefined && { cacheRead }),
    ...(cacheWrite !== undefined && { cacheWrite }),
    ...(cacheWriteHour !== undefined && { cacheWriteHour }),
  }
}

/** Creates the schema of `prices` in an entry under `providers:`. */
export const pricesEntry = () =>
  z.record(
    z.string(),
    section(
      {
        ...tokenPrices,
        points: points.optional(),
        audio: section({ input: dollars, output: dollars }, EXAMPLE).optional(),
        tiers: z.record(z.string(), tier, { error: 'must map tiers of service to prices' }).optional(),
        web_search: z
          .number({ error: 'must be a number of dollars per thousand searches' })
          .min(0, { error: 'must not be negative' })
          .max(PRICE_MAX, { error: `must be at most ${PRICE_MAX} dollars per thousand searches` })
          .optional(),
      },
      EXAMPLE,
    ).transform(({ points: ofAnswer, tiers, web_search: webSearch, audio, ...own }): PriceConfig => {
      const named = tiers && Object.entries(tiers).map(([name, prices]) => [name, toTokenPrices(prices)] as const)
      return {
        ...toTokenPrices(own),
        ...(ofAnswer !== undefined && { points: ofAnswer }),
        ...(named && { tiers: Object.fromEntries(named) }),
        ...(webSearch !== undefined && { webSearch }),
        ...(audio && { audio: [audio.input, audio.output] as const }),
      }
    }),
    { error: 'must map model names, or "*", to prices' },
  )
