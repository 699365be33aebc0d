import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type Count,
  leftOf,
  type Quota,
  quotasOf,
  strictest,
} from '../../../../src/daemon/metering/rate-limits/quotas.ts'
import { callerWith, routeOf } from './counted-key.ts'

const limits = { minute: 60, hour: 1000, day: 100, month: 10_000 }

/** Counter and limit of each quota. */
const shown = (quotas: readonly Quota[]) => quotas.map(({ counter, limit }) => [counter, limit])

describe('the quotas of a request', () => {
  const ofKey = [
    ['minute', 60],
    ['hour', 1000],
    ['day', 100],
    ['month', 10_000],
  ]

  test('are those of the key', () => {
    expect(shown(quotasOf(callerWith(limits), routeOf('general')))).toEqual(ofKey)
  })

  test('omit day and month if nothing is metered', () => {
    expect(shown(quotasOf(callerWith(limits), routeOf('unmetered')))).toEqual(ofKey.slice(0, 2))
  })

  test.each([
    ['write', 50, 5_000, 150_000],
    ['read', 100, 10_000, 300_000],
  ] as const)('add the class %s, only for the route', (rate, minute, day, month) => {
    const quotas = quotasOf(callerWith(limits), routeOf(rate, '/groups'))
    expect(shown(quotas)).toEqual([
      ...ofKey,
      ['POST /groups minute', minute],
      ['POST /groups day', day],
      ['POST /groups month', month],
    ])
    expect(quotas.map(({ endpoint }) => endpoint)).toEqual([
      ...Array(4).fill(undefined),
      ...Array(3).fill('POST /groups'),
    ])
  })

  test('count requests of the operator key without limits, except that of the class', () => {
    const operator = callerWith(limits, { isOperator: true })
    expect(shown(quotasOf(operator, routeOf('general')))).toEqual(ofKey.map(([counter]) => [counter, null]))
    expect(shown(quotasOf(operator, routeOf('write', '/groups'))).slice(4)[0]).toEqual(['POST /groups minute', 50])
  })
})

describe('the strictest quota', () => {
  const quota = fc.record({
    limit: fc.option(fc.integer({ min: 0, max: 5 }), { nil: null }),
    used: fc.integer({ min: 0, max: 6 }),
    endMs: fc.integer({ min: 1, max: 3 }),
  })

  test('has the least remaining, ends last among those, and is undefined exactly without limits', () => {
    fc.assert(
      fc.property(fc.array(quota, { maxLength: 7 }), (given) => {
        const quotas: Quota[] = given.map(({ limit }) => ({
          counter: '',
          window: 'minute',
          limit,
          endpoint: undefined,
        }))
        const counts: Count[] = given
        const at = strictest(quotas, counts)
        const limiting = given.filter(({ limit }) => limit !== null)
        if (at === undefined) {
          expect(limiting).toEqual([])
          return
        }
        const least = Math.min(...limiting.map(({ limit, used }) => Math.max(0, Number(limit) - used)))
        expect(leftOf(quotas[at] as Quota, counts[at] as Count)).toBe(least)
        const equals = limiting.filter(({ limit, used }) => Math.max(0, Number(limit) - used) === least)
        expect(counts[at]?.endMs).toBe(Math.max(...equals.map(({ endMs }) => endMs)))
      }),
    )
  })
})
