import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { periodAt } from '../../../../src/daemon/metering/usage/period.ts'
import {
  fallbackOf,
  limitsOf,
  modeFor,
  refusalOf,
  type SpendState,
  type Standing,
} from '../../../../src/daemon/metering/usage/spend-request.ts'
import { spendRequestOf } from './spend-requests.ts'

const NONE: SpendState = { spent: 0, reserved: 0 }
const standing = (given: Partial<Standing> = {}): Standing => ({
  points: NONE,
  userNanos: NONE,
  keyNanos: NONE,
  budgets: [],
  ...given,
})

describe('the budget of a request', () => {
  test.each([
    [
      'points, while there are some',
      { pointsLimit: 10, points: 2 },
      { points: { spent: 5, reserved: 3 } },
      'user-completions',
    ],
    [
      'nothing, when running requests may use the last ones',
      { pointsLimit: 10, points: 2 },
      { points: { spent: 5, reserved: 4 } },
      undefined,
    ],
    [
      'dollars, if the points are exhausted and the account has agreed',
      { pointsLimit: 1, points: 2, mayPayDollars: true },
      {},
      'usage-by-model',
    ],
    ['nothing, if it has not agreed', { pointsLimit: 1, points: 2 }, {}, undefined],
    [
      'zero points for a local model',
      { pointsLimit: 1, points: 0 },
      { points: { spent: 9, reserved: 0 } },
      'user-completions',
    ],
    [
      'nothing, if a fallback exceeds the budget',
      { pointsLimit: 1, points: 2, mayPayDollars: true, userLimitNanos: 5, nanos: 6 },
      {},
      undefined,
    ],
    [
      'nothing, if a key may not use dollars as a fallback',
      { pointsLimit: 1, points: 2, mayPayDollars: true, keyLimitNanos: 0, nanos: 6 },
      {},
      undefined,
    ],
    [
      'dollars, up to the last billionth',
      { mode: 'usage-by-model', mayPayDollars: true, userLimitNanos: 10, nanos: 4 },
      { userNanos: { spent: 5, reserved: 1 } },
      'usage-by-model',
    ],
    [
      'nothing above',
      { mode: 'usage-by-model', mayPayDollars: true, userLimitNanos: 10, nanos: 5 },
      { userNanos: { spent: 5, reserved: 1 } },
      undefined,
    ],
    [
      'nothing above the limit of its key',
      { mode: 'usage-by-model', mayPayDollars: true, userLimitNanos: 10, keyLimitNanos: 4, nanos: 5 },
      {},
      undefined,
    ],
    [
      'zero dollars for a local model',
      { mode: 'usage-by-model', mayPayDollars: true, userLimitNanos: 0, nanos: 0 },
      { userNanos: { spent: 5, reserved: 0 } },
      'usage-by-model',
    ],
    [
      'never points, if its key uses dollars',
      { mode: 'usage-by-model', mayPayDollars: true, userLimitNanos: 0, nanos: 1 },
      {},
      undefined,
    ],
  ] as const)('%s', (_what, request, drawn, mode) => {
    expect(modeFor(spendRequestOf(request), standing(drawn))).toBe(mode)
  })

  test('never exceeds a limit, whatever was spent and reserved before', () => {
    const amount = fc.nat(20)
    const limit = fc.option(fc.nat(20))
    const drawn = fc.record({ spent: amount, reserved: amount })
    const request = fc.record({
      mode: fc.constantFrom('user-completions' as const, 'usage-by-model' as const),
      mayPayDollars: fc.boolean(),
      points: amount,
      nanos: amount,
      pointsLimit: limit,
      userLimitNanos: limit,
      keyLimitNanos: limit,
    })
    fc.assert(
      fc.property(request, fc.record({ points: drawn, userNanos: drawn, keyNanos: drawn }), (given, before) => {
        const mode = modeFor(spendRequestOf(given), standing(before))
        const isWithin = ({ spent, reserved }: SpendState, cost: number, max: number | null) =>
          cost === 0 || max === null || spent + reserved + cost <= max
        const pointsFit = isWithin(before.points, given.points, given.pointsLimit)
        const dollarsFit =
          given.mayPayDollars &&
          isWithin(before.userNanos, given.nanos, given.userLimitNanos) &&
          isWithin(before.keyNanos, given.nanos, given.keyLimitNanos)
        const expected =
          given.mode === 'user-completions' && pointsFit
            ? 'user-completions'
            : dollarsFit
              ? 'usage-by-model'
              : undefined
        expect(mode).toBe(expected)
      }),
    )
  })

  test("is shown if it differs from the key's setting", () => {
    expect(fallbackOf('user-completions', 'user-completions')).toBeUndefined()
    expect(fallbackOf('user-completions', 'usage-by-model')).toEqual({
      original_mode: 'user-completions',
      fallback_mode: 'usage-by-model',
      reason: 'quota_exhausted',
    })
  })
})

test('the limits are those of the account, its licence and, if it has its own budget, the key', () => {
  const payer = { id: 'u', license: 'Growth', usageByModel: { enabled: true, dollarLimit: 1.5 } } as const
  const key = { billingMode: 'user-completions', usageByModel: { enabled: true, dollarLimit: 0.25 } } as const
  expect(limitsOf(payer, key, { Growth: 7 })).toEqual({
    budgets: [],
    mode: 'user-completions',
    mayPayDollars: true,
    license: 'Growth',
    pointsLimit: 7,
    userLimitNanos: 1_500_000_000,
    keyLimitNanos: 250_000_000,
  })
  const without = { ...key, usageByModel: { enabled: false, dollarLimit: 0.25 } }
  expect(limitsOf(payer, without, { Growth: null })).toMatchObject({ pointsLimit: null, keyLimitNanos: null })
})

describe('a rejection', () => {
  const nowMs = Date.parse('2026-11-29T23:59:59.500Z')
  const period = periodAt(nowMs)
  const refused = (request: Parameters<typeof spendRequestOf>[0], drawn: Partial<Standing>) =>
    refusalOf(spendRequestOf(request), standing(drawn), period, nowMs)

  test('for missing points names the licence, its points and the time of renewal', () => {
    const error = refused({ pointsLimit: 10, points: 2 }, { points: { spent: 9, reserved: 0 } })
    expect(error.code).toBe('COMPLETION_LIMIT_EXCEEDED')
    expect(error.message).toMatch(
      /The licence "Essential" has 10 points a month; 9 are used, and this request may cost 2/,
    )
    expect([error.retryAfterSeconds, error.extra]).toEqual([86_401, { reset_time: '2026-12-01T00:00:00.000Z' }])
  })

  test('for missing dollars names the exhausted budget', () => {
    const dollars = {
      mode: 'usage-by-model',
      mayPayDollars: true,
      userLimitNanos: 10e9,
      keyLimitNanos: 2e9,
      nanos: 1e9,
    } as const
    const ofKey = refused(dollars, { keyNanos: { spent: 1.5e9, reserved: 0 } })
    expect(ofKey.code).toBe('USAGE_BY_MODEL_BUDGET_EXCEEDED')
    expect(ofKey.message).toMatch(
      /This API key may spend \$2\.00 a month; \$1\.50 are spent, and this request may cost \$1\.00/,
    )
    expect(refused(dollars, { userNanos: { spent: 9.5e9, reserved: 0 } }).message).toMatch(
      /This account may spend \$10\.00/,
    )
  })

  test('because of running requests says to retry in a moment', () => {
    const error = refused({ pointsLimit: 10, points: 2 }, { points: { spent: 1, reserved: 9 } })
    expect([error.retryAfterSeconds, error.message]).toEqual([
      2,
      expect.stringMatching(/Running requests have reserved the rest/),
    ])
  })
})

test.each([
  ['2026-11-01T00:00:00.000Z', '2026-11', '2026-12-01T00:00:00.000Z'],
  ['2026-10-31T23:59:59.999Z', '2026-10', '2026-11-01T00:00:00.000Z'],
  ['2028-02-29T12:00:00.000Z', '2028-02', '2028-03-01T00:00:00.000Z'],
  ['2026-12-31T23:59:59.999Z', '2026-12', '2027-01-01T00:00:00.000Z'],
])('%s is in the month %s, which ends at %s', (now, name, end) => {
  const period = periodAt(Date.parse(now))
  expect([period.name, new Date(period.endMs).toISOString()]).toEqual([name, end])
})
