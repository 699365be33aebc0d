import { beforeAll, describe, expect, test } from 'vitest'
import { toUsage } from '../../../../src/daemon/gateway/discovery/usage.ts'
import { NOBODY } from '../../../../src/daemon/platform/http/caller.ts'
import { UsageResponse } from '../../../../src/shared/wire/discovery.ts'
import { KeySettings } from '../../../../src/shared/wire/keys.ts'
import { addKey, addUser } from '../../../accounts.ts'
import { describeEachEngine } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { sharedGateway } from '../../../harness.ts'

const USAGE = '/api/external/usage'

describeEachEngine('GET /usage', (engine) => {
  const gateway = sharedGateway({ engine, clock: createFakeClock(Date.parse('2026-12-31T23:59:59.000Z')) })
  let tenantId = ''
  beforeAll(async () => {
    const { app } = gateway.current
    tenantId = (await app.db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()).id
  })
  const newKey = async (settings: Partial<KeySettings>, expires_at: string | null = null) => {
    const { db } = gateway.current.app
    const { secret: key } = await addKey(db, await addUser(db, { tenant_id: tenantId }), {
      name: 'reports',
      settings,
      expires_at,
    })
    const usage = async () => {
      const { status, body } = await gateway.current.call('GET', USAGE, undefined, { key })
      expect([status, body.success], JSON.stringify(body)).toEqual([200, true])
      return UsageResponse.parse(body)
    }
    return { key, usage }
  }

  test('shows used and remaining requests, and does not count itself', async () => {
    const limits = { dailyLimit: 5, monthlyLimit: 50, rateLimit: { requestsPerMinute: 30, requestsPerHour: 300 } }
    const { key, usage } = await newKey(limits, '2027-01-31T00:00:00.000Z')
    for (let at = 0; at < 3; at++) await gateway.current.call('GET', '/api/external/models', undefined, { key })
    expect(await usage()).toEqual(await usage())
    expect(await usage()).toEqual({
      success: true,
      points: { remaining: null, monthly_limit: null, next_renewal: '2027-01-01T00:00:00.000Z' },
      usage_by_model: { enabled: false },
      api_key: {
        name: 'reports',
        billing_mode: 'user-completions',
        daily: { used: 3, limit: 5, remaining: 2 },
        monthly: { used: 3, limit: 50, remaining: 47 },
        rate_limit: { requests_per_minute: 30, requests_per_hour: 300 },
        expires_at: '2027-01-31T00:00:00.000Z',
      },
    })
  })

  test('also responds when the daily limit is reached', async () => {
    const { key, usage } = await newKey({ dailyLimit: 1 })
    const statuses = []
    for (let at = 0; at < 2; at++) {
      statuses.push((await gateway.current.call('GET', '/api/external/models', undefined, { key })).status)
    }
    expect(statuses).toEqual([200, 429])
    expect((await usage()).api_key.daily).toEqual({ used: 1, limit: 1, remaining: 0 })
  })

  test('null means no limit', async () => {
    const { usage } = await newKey({
      monthlyLimit: null,
      rateLimit: { requestsPerMinute: null, requestsPerHour: null },
    })
    const { api_key } = await usage()
    expect(api_key).toMatchObject({
      monthly: { used: 0, limit: null, remaining: null },
      rate_limit: { requests_per_minute: null, requests_per_hour: null },
      expires_at: null,
    })
  })

  test('the operator key has no limits, and its requests are counted', async () => {
    const { body } = await gateway.current.call('GET', USAGE)
    await gateway.current.call('GET', '/api/external/models')
    const after = await gateway.current.call('GET', USAGE)
    const daily = { used: body.api_key.daily.used + 1, limit: null, remaining: null }
    expect(after.body.api_key).toMatchObject({
      daily,
      monthly: daily,
      rate_limit: { requests_per_minute: null, requests_per_hour: null },
    })
  })
})

describe('the remaining amount', () => {
  const userUsageByModel = { enabled: true, dollarLimit: 12.5 }
  const spend = { points: 98, nanos: 2_500_000_001 }
  const usageOf = (settings: object, counts = { day: 0, month: 0 }, now = '2026-01-31T12:00:00.000Z') =>
    toUsage(
      { ...NOBODY, settings: KeySettings.parse(settings), userUsageByModel },
      { counts, spend, pointsLimit: 100, nowMs: Date.parse(now) },
    )

  test('is never negative after a limit was lowered', () => {
    const { daily } = usageOf({ dailyLimit: 10 }, { day: 12, month: 12 }).api_key
    expect(daily).toEqual({ used: 12, limit: 10, remaining: 0 })
  })

  test('is never negative after an overdraft', () => {
    const { points, usage_by_model } = toUsage(
      { ...NOBODY, settings: KeySettings.parse({}), userUsageByModel },
      { counts: { day: 0, month: 0 }, spend: { points: 98, nanos: 13e9 }, pointsLimit: 97, nowMs: 0 },
    )
    expect([points.remaining, usage_by_model]).toEqual([0, expect.objectContaining({ remaining_budget: 0 })])
  })

  test('of points and of dollars is exact to the last fraction of a cent', () => {
    const { points, usage_by_model } = usageOf({})
    expect(points).toMatchObject({ monthly_limit: 100, remaining: 2 })
    expect(usage_by_model).toEqual({
      enabled: true,
      dollar_limit: 12.5,
      current_spend: 2.500000001,
      remaining_budget: 9.999999999,
    })
  })

  test.each([
    ['2026-01-31T12:00:00.000Z', '2026-02-01T00:00:00.000Z'],
    ['2028-02-29T23:59:59.999Z', '2028-03-01T00:00:00.000Z'],
    ['2026-12-01T00:00:00.000Z', '2027-01-01T00:00:00.000Z'],
  ])('on %s is renewed on %s', (now, renewal) => {
    expect(usageOf({}, undefined, now).points.next_renewal).toBe(renewal)
  })
})
