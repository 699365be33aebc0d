import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { PLAUSIBLE_TOKENS } from '../../../../src/daemon/metering/usage/counts.ts'
import { RESERVED_TOKENS } from '../../../../src/daemon/metering/usage/input-tokens.ts'
import { toDollars, toNanos } from '../../../../src/daemon/metering/usage/money.ts'
import { POINTS, PRICE_TABLE, PRICES_AS_OF, UNKNOWN_PRICE } from '../../../../src/daemon/metering/usage/price-table.ts'
import {
  costOf,
  createPriceList,
  dearest,
  highestCost,
  unknownIn,
} from '../../../../src/daemon/metering/usage/prices.ts'
import {
  RESERVATION_LEASE_MS,
  RESERVATION_RENEW_MS,
  SPEND_LOCK_WAIT_MS,
} from '../../../../src/daemon/metering/usage/shared-budgets.ts'
import { RESERVED_RETRY_AFTER_SECONDS } from '../../../../src/daemon/metering/usage/spend-request.ts'
import type { ProviderConfig } from '../../../../src/daemon/models/config.ts'
import type { TokenUsage } from '../../../../src/daemon/models/provider.ts'
import { ERRORS } from '../../../../src/shared/errors.ts'
import { upstreamProvider } from '../../../harness.ts'

const tokens = (inputTokens: number, outputTokens: number, more: Partial<TokenUsage> = {}): TokenUsage => ({
  inputTokens,
  outputTokens,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
  estimated: false,
  ...more,
})

/** Input and output, in dollars per million tokens. */
const listed = (modelId: string, configs: readonly ProviderConfig[] = []) => {
  const { input, output, points, isKnown } = createPriceList(configs).priceOf(modelId)
  return [input / 1e6, output / 1e6, points, isKnown]
}
const named = (name: string, more: Partial<ProviderConfig> = {}) =>
  ({ ...upstreamProvider(name, 'http://h/v1'), prices: undefined, ...more }) as ProviderConfig

describe('a price', () => {
  test.each([
    ['openai/gpt-4o', [2.5, 10, 2, true]],
    ['openai/gpt-4o-2024-11-20', [2.5, 10, 2, true]],
    ['openai/gpt-4o-2024-05-13', [5, 15, 2, true]],
    ['openai/gpt-3.5-turbo-0613', [1.5, 2, 1, true]],
    ['openai/gpt-4-1106-preview', [10, 30, 2, true]],
    ['openai/o1-pro', [150, 600, 2, true]],
    ['openai/gpt-5-pro-2025-10-06', [15, 120, 2, true]],
    ['mistral/mistral-large-2402', [4, 12, 1, true]],
    ['mistral/mistral-medium-2312', [2.7, 8.1, 1, true]],
    ['openai/gpt-4o-mini', [0.15, 0.6, 1, true]],
    ['openai/gpt-5-nano', [0.05, 0.4, 1, true]],
    ['anthropic/claude-sonnet-4-5-20250929', [3, 15, 2, true]],
    ['google/gemini-2.5-pro-preview-05-06', [1.25, 10, 2, true]],
    ['mistral/mistral-large-2512', [0.5, 1.5, 1, true]],
    ['mistral/mistral-large-latest', [2, 6, 1, true]],
    ['bedrock/eu.anthropic.claude-haiku-4-5-20251001-v1:0', [1, 5, 1, true]],
    ['bedrock/eu.cohere.embed-v4:0', [0.12, 0, 1, true]],
    ['bedrock/amazon.titan-embed-text-v2:0', [0.02, 0, 1, true]],
    ['openrouter/anthropic/claude-sonnet-4.5', [3, 15, 2, true]],
    ['anthropic/claude-sonnet-4-5@20250929', [3, 15, 2, true]],
    ['openrouter/openai/gpt-4o', [2.5, 10, 2, true]],
    ['groq/openai/gpt-oss-120b', [0.15, 0.6, 1, true]],
    ['local/extract', [0, 0, 0, true]],
    ['ollama/llama3.2', [0, 0, 0, true]],
    ['vllm/any/thing', [0, 0, 0, true]],
  ])('of %s is in the list', (modelId, price) => {
    expect(listed(modelId)).toEqual(price)
  })

  test.each([
    ['an edition is not another model', 'openai/gpt-4o-ultra', [30, 180, 2, false]],
    ['a cheap provider is not assumed to stay cheap', 'deepseek/deepseek-next', [15, 75, 2, false]],
    ['an edition outside the list: its model', 'openai/gpt-4o-2027-01-31', [2.5, 10, 2, false]],
    ['and so behind a preview', 'google/gemini-2.5-pro-preview-12-24', [1.25, 10, 2, false]],
    ['a model of a known provider', 'anthropic/claude-next-9', [15, 75, 2, false]],
    ['a provider nobody knows', 'house/large', [15, 75, 2, false]],
    ['a name that every object has', 'openai/constructor', [30, 180, 2, false]],
    ['a provider with such a name', 'constructor/x', [15, 75, 2, false]],
    ['a maker that the reseller does not name', 'openrouter/nobody/x', [15, 75, 2, false]],
  ])('of an unknown model is assumed, and high: %s', (_why, modelId, price) => {
    expect(listed(modelId)).toEqual(price)
  })

  test('of the configuration takes precedence, for the model and then for all others', () => {
    const prices = { 'gpt-4o': { input: 1, output: 2 }, '*': { input: 3, output: 4, points: 7 } }
    const configs = [named('openai', { prices })]
    expect(listed('openai/gpt-4o', configs)).toEqual([1, 2, 2, true])
    expect(listed('openai/gpt-4o-mini', configs)).toEqual([3, 4, 7, true])
    expect(listed('openai/*', configs)).toEqual([3, 4, 7, true])
  })

  test("is that of the company at the address, whatever the provider's name", () => {
    expect(listed('us/gpt-4o', [named('us', { baseUrl: 'https://api.openai.com/v1' })])).toEqual([2.5, 10, 2, true])
    expect(listed('claude/claude-opus-4-5', [named('claude', { kind: 'anthropic' })])).toEqual([5, 25, 2, true])
    expect(listed('west/gpt-4o', [named('west', { kind: 'azure' })])).toEqual([2.5, 10, 2, true])
    expect(listed('house/gpt-4o', [named('house')])).toEqual([15, 75, 2, false])
    const vertex = {
      ...{
        name: 'gcp',
        kind: 'vertex' as const,
        project: 'p',
        location: 'eu',
        baseUrl: undefined,
        credentials: undefined,
      },
      ...{ headers: {}, models: undefined },
    }
    const claude = 'gcp/claude-opus-4-5@20251101'
    expect(listed(claude, [{ ...vertex, publisher: 'anthropic' }])).toEqual([5, 25, 2, true])
    expect(listed('gcp/gemini-2.5-flash', [{ ...vertex, publisher: 'google' }])).toEqual(
      listed('google/gemini-2.5-flash', []),
    )
  })

  test.each([
    ['http://127.0.0.1:11434/v1', true],
    ['http://[::1]:11434/v1', true],
    ['http://10.1.2.3/v1', true],
    ['http://192.168.0.9:8000/v1', true],
    ['http://ollama:11434/v1', true],
    ['http://gpu.home.arpa/v1', true],
    ['https://ollama.com/v1', false],
    ['https://8.8.8.8/v1', false],
    ['https://localhost.example.com/v1', false],
  ])('of a server at %s is zero when it is named ollama: %s', (baseUrl, isFree) => {
    expect(listed('ollama/x', [named('ollama', { baseUrl })])).toEqual(isFree ? [0, 0, 0, true] : [15, 75, 2, false])
  })

  test('is listed in dollars that pico-dollars can represent, under a name that can be found', () => {
    expect(PRICES_AS_OF).toMatch(/^\d{4}-\d{2}-\d{2}$/)
    const prices = createPriceList([])
    for (const [provider, { models, editions = [], unlisted = UNKNOWN_PRICE }] of Object.entries(PRICE_TABLE)) {
      for (const bucket of Object.values(models)) {
        for (const [model, price] of Object.entries(bucket)) {
          for (const dollars of price) expect((dollars ?? 0) * 1e6).toBeCloseTo(Math.round((dollars ?? 0) * 1e6), 6)
          const found = prices.priceOf(`${provider}/${model}`)
          expect([found.input, found.output], `${provider}/${model}`).toEqual([
            Math.round(price[0] * 1e6),
            Math.round(price[1] * 1e6),
          ])
          // An unknown model must not be cheaper. The one exception, which is dearer, is not in common use.
          if (model !== 'o1-pro') expect(unlisted[1], `${provider}/${model}`).toBeGreaterThanOrEqual(price[1])
        }
      }
      expect(editions.filter((name) => !prices.priceOf(`${provider}/${name}`).isKnown)).toEqual([])
      expect(unlisted[0]).toBeGreaterThanOrEqual(UNKNOWN_PRICE[0])
    }
  })
})

describe('the cost of tokens', () => {
  const price = createPriceList([]).priceOf('anthropic/claude-sonnet-4-5')

  test('depends on the tier of service that the list has', () => {
    const price = createPriceList([]).priceOf('openai/gpt-5-2025-08-07')
    expect(costOf(price, tokens(1_000, 1_000, { tier: 'flex' }))).toBe(5_625_000)
    expect(costOf(price, tokens(1_000, 1_000, { tier: 'priority' }))).toBe(22_500_000)
    // An unknown tier has the standard price, and is reported.
    expect(costOf(price, tokens(1_000, 1_000, { tier: 'scale' }))).toBe(11_250_000)
    expect(unknownIn(price, { tier: 'scale' })).toBe('tier')
    expect(unknownIn(price, { tier: 'flex', webSearches: 1 })).toBeUndefined()
    expect(unknownIn(createPriceList([]).priceOf('mistral/codestral'), { webSearches: 1 })).toBe('web search')
  })

  test('reserves the dearer one of the standard price and that of the tier', () => {
    const price = createPriceList([]).priceOf('openai/gpt-5')
    expect(highestCost(dearest(price, 'priority'), 1_000, 1_000)).toBe(22_500_000)
    expect(highestCost(dearest(price, 'flex'), 1_000, 1_000)).toBe(11_250_000)
    expect(dearest(price, 'scale')).toBe(price)
  })

  test('is exact to the billionth of a dollar, cached tokens at their own price', () => {
    expect(costOf(price, tokens(1, 1))).toBe(18_000)
    expect(costOf(price, tokens(1000, 10, { cacheReadTokens: 600, cacheWriteTokens: 300 }))).toBe(
      100 * 3000 + 600 * 300 + 300 * 3750 + 10 * 15_000,
    )
  })

  test('is rounded once, half up, for fractions of a billionth', () => {
    const list = createPriceList([named('a', { prices: { m: { input: 0.0005, output: 0 } } })]).priceOf('a/m')
    expect([1, 2, 3, 4].map((count) => costOf(list, tokens(count, 0)))).toEqual([1, 1, 2, 2])
  })

  test('never exceeds the reservation for the same number of tokens, however they are counted', () => {
    fc.assert(
      fc.property(
        fc.nat(1_000_000),
        fc.nat(1_000_000),
        fc.nat(1_000_000),
        fc.nat(4_000),
        fc.constantFrom('anthropic/claude-haiku-4-5', 'openai/gpt-4o', 'openai/gpt-5-nano', 'house/x', 'local/x'),
        (fresh, cacheReadTokens, cacheWriteTokens, output, modelId) => {
          const ofModel = createPriceList([]).priceOf(modelId)
          const input = fresh + cacheReadTokens + cacheWriteTokens
          const cost = costOf(ofModel, tokens(input, output, { cacheReadTokens, cacheWriteTokens }))
          expect(cost).toBeLessThanOrEqual(highestCost(ofModel, input, output))
          expect(Number.isSafeInteger(cost)).toBe(true)
        },
      ),
    )
  })

  test('can be stored, however many tokens a provider reports', () => {
    expect(costOf(price, tokens(Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER))).toBe(Number.MAX_SAFE_INTEGER)
  })
})

test('dollars convert to integer billionths and back', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 9_000_000_000_000 }), (thousandths) => {
      const dollars = thousandths / 1_000_000
      expect(toDollars(toNanos(dollars))).toBe(dollars)
    }),
  )
})

test('docs/billing.md matches the code', () => {
  const page = readFileSync(new URL('../../../../docs/billing.md', import.meta.url), 'utf8').replace(/\s+/g, ' ')
  const { COMPLETION_LIMIT_EXCEEDED, USAGE_BY_MODEL_BUDGET_EXCEEDED, USAGE_BY_MODEL_REQUIRED } = ERRORS
  for (const { label, status } of [
    COMPLETION_LIMIT_EXCEEDED,
    USAGE_BY_MODEL_BUDGET_EXCEEDED,
    USAGE_BY_MODEL_REQUIRED,
  ]) {
    expect(page).toMatch(new RegExp(`\`${label}\` +\\| ${status} `))
  }
  const [input, output] = UNKNOWN_PRICE
  expect(page).toContain(`at $${input} per million input tokens and $${output} per million output tokens`)
  expect(page).toContain(
    `${POINTS.free} for models on the same machine, ${POINTS.standard} for standard models and ${POINTS.premium} for premium`,
  )
  expect(page).toContain(`more than ${RESERVED_TOKENS.image.toLocaleString('en')} tokens for an image`)
  expect(page).toContain(`${RESERVED_TOKENS.tools.toLocaleString('en')} tokens for tools`)
  expect(page).toContain(
    `more than ${PLAUSIBLE_TOKENS.times} times the possible maximum plus ${PLAUSIBLE_TOKENS.beyond.toLocaleString('en')} tokens`,
  )
  expect(page).toContain(`renewed every ${RESERVATION_RENEW_MS / 1000} seconds`)
  expect([RESERVATION_LEASE_MS, SPEND_LOCK_WAIT_MS]).toEqual([60_000, 1_000])
  expect(RESERVED_RETRY_AFTER_SECONDS).toBe(2)
  expect(page).toContain('two seconds if only the reservations of running requests use up the budget')
})
