import { describe, expect, test } from 'vitest'
import { countingInputTokens, ESTIMATED_TOKENS } from '../../../../src/daemon/metering/usage/input-tokens.ts'
import type { Tables } from '../../../../src/daemon/platform/db/tables.ts'
import { runToEnd } from '../../../../src/daemon/platform/pacing.ts'
import { countTokens } from '../../../../src/daemon/platform/text/tokens.ts'
import { newId } from '../../../../src/shared/ids.ts'
import type { KeySettings } from '../../../../src/shared/wire/keys.ts'
import { addKey, addUser } from '../../../accounts.ts'
import { deferred } from '../../../deferred.ts'
import { describeEachEngine } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { type Gateway, type GatewayOptions, startGateway, upstreamProvider } from '../../../harness.ts'
import { recordedChanges } from '../../../recorded-changes.ts'
import { chatJson, chatStream, replyCut, replyJson, replyRaw, replySteps } from '../../../upstream.ts'

const NOW = Date.parse('2026-11-20T12:00:00.000Z')
const OPENAI_CHAT = '/api/external/v1/chat/completions'

/** The upstream's default counts: 11 tokens in and 5 out, at 1 and 2 millionths of a dollar. */
const ANSWER_NANOS = 11 * 1_000 + 5 * 2_000

/** A user who pays in dollars, and the amount. */
const inDollars = (limit: number | null = null) => ({
  usage_by_model: 1,
  dollar_limit_nanos: limit === null ? null : limit * 1e9,
})

async function startBilled(options: GatewayOptions = {}) {
  const gateway = await startGateway({ clock: createFakeClock(NOW), ...options })
  const { db } = gateway.app
  const { id: tenant_id } = await db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
  const account = async (user: Partial<Tables['users']> = {}, settings: Partial<KeySettings> = {}) => {
    const row = await addUser(db, { tenant_id, ...user })
    const { secret: key, row: keyRow } = await addKey(db, row, { settings })
    return { userId: row.id, keyId: keyRow.id, key }
  }
  return { gateway, account }
}

const usageOf = async (gateway: Gateway, key: string) => {
  const { body } = await gateway.call('GET', '/api/external/usage', undefined, { key })
  return { points: body.points.remaining as number | null, dollars: body.usage_by_model }
}

const spendOf = (gateway: Gateway) =>
  gateway.app.db.selectFrom('spend_counters').selectAll().orderBy('holder').orderBy('holder_id').execute()

const twoAnswers = replyJson({
  choices: ['a', 'b'].map((content, index) => ({ index, message: { content }, finish_reason: 'stop' })),
  usage: { prompt_tokens: 11, completion_tokens: 5 },
})
const askTwice = { model: 'test/any', messages: [{ role: 'user', content: 'hi' }], n: 2 }

describeEachEngine('several answers to one request', (engine) => {
  test('cost the points of each answer', async () => {
    const { gateway, account } = await startBilled({ engine, points: { Essential: 3 } })
    const { key } = await account()
    gateway.upstream.fallback(twoAnswers)
    expect((await gateway.call('POST', OPENAI_CHAT, askTwice, { key })).status).toBe(200)
    expect(await usageOf(gateway, key)).toMatchObject({ points: 1 })
    expect(await gateway.usage()).toMatchObject([{ points: 2 }])
    expect((await gateway.call('POST', OPENAI_CHAT, askTwice, { key })).status).toBe(429)
    expect(gateway.upstream.requests).toHaveLength(1)
  })

  test('reserve the limit of each answer, and share what the budget covers', async () => {
    const { gateway, account } = await startBilled({ engine, points: { Essential: 0 } })
    gateway.upstream.fallback(twoAnswers)
    // 6,000 output tokens cost 0.012 dollars.
    const { key } = await account(inDollars(0.012))
    const limited = { ...askTwice, max_tokens: 5_000 }
    expect((await gateway.call('POST', OPENAI_CHAT, limited, { key })).status).toBe(429)
    expect((await gateway.call('POST', OPENAI_CHAT, askTwice, { key })).status).toBe(200)
    const sent = (gateway.upstream.requests.at(-1)?.body as { max_tokens: number } | undefined)?.max_tokens
    expect(sent).toBeGreaterThan(2_900)
    expect(sent).toBeLessThanOrEqual(3_000)
    expect(await gateway.usage()).toMatchObject([{ cost_nanos: ANSWER_NANOS }])
  })
})

describeEachEngine('points', (engine) => {
  test('of a month are used by answers, and then chat is 429 until the next month', async () => {
    const { gateway, account } = await startBilled({ engine, points: { Essential: 2 } })
    const { key } = await account()
    expect(await usageOf(gateway, key)).toMatchObject({ points: 2, dollars: { enabled: false } })
    for (let at = 0; at < 2; at++) expect((await gateway.chat({ prompt: 'hi' }, { key })).status).toBe(200)
    expect(await usageOf(gateway, key)).toMatchObject({ points: 0 })
    const refused = await gateway.chat({ prompt: 'hi' }, { key })
    expect([refused.status, refused.body, refused.headers['retry-after']]).toEqual([
      429,
      {
        success: false,
        error: 'Completion limit exceeded',
        message: expect.stringMatching(/The licence "Essential" has 2 points a month; 2 are used/),
        request_id: refused.headers['x-request-id'],
        bundle_id: refused.headers['x-smltp-bundle-id'],
        reset_time: '2026-12-01T00:00:00.000Z',
      },
      String((Date.parse('2026-12-01T00:00:00.000Z') - NOW) / 1000),
    ])
    expect(gateway.upstream.requests).toHaveLength(2)
    const free = await gateway.chat({ prompt: 'hi', model: 'local/extract' }, { key })
    expect(free.status).toBe(200)
  })

  test('are those of the paying account', async () => {
    const { gateway, account } = await startBilled({ engine, points: { Essential: 1 } })
    const [admin, user] = [await account({ role: 'admin' }), await account()]
    expect((await gateway.chat({ prompt: 'hi', user_id: user.userId }, { key: admin.key })).status).toBe(200)
    expect((await gateway.chat({ prompt: 'hi', user_id: user.userId }, { key: admin.key })).status).toBe(429)
    expect((await gateway.chat({ prompt: 'hi' }, { key: user.key })).status).toBe(429)
    expect((await gateway.chat({ prompt: 'hi' }, { key: admin.key })).status).toBe(200)
  })

  test('that are exhausted give way to dollars if the account has agreed, which the answer reports', async () => {
    const { gateway, account } = await startBilled({ engine, points: { Essential: 0 } })
    const { key, userId, keyId } = await account(inDollars(1))
    const fallback = { original_mode: 'user-completions', fallback_mode: 'usage-by-model', reason: 'quota_exhausted' }
    const { body } = await gateway.chat({ prompt: 'hi' }, { key })
    expect(body.metadata.billing_fallback).toEqual(fallback)
    const openai = { model: 'test/any', messages: [{ role: 'user', content: 'hi' }] }
    const other = await gateway.call('POST', OPENAI_CHAT, openai, { key })
    expect(other.body.gateway.billing_fallback).toEqual(fallback)
    expect(await gateway.usage()).toEqual(
      Array(2).fill(
        expect.objectContaining({
          user_id: userId,
          billing_mode: 'usage-by-model',
          billing_period: '2026-11',
          cost_nanos: ANSWER_NANOS,
          points: 0,
        }),
      ),
    )
    expect(await spendOf(gateway)).toEqual([
      expect.objectContaining({ holder: 'key', holder_id: keyId, nanos: 2 * ANSWER_NANOS, points: 0 }),
      expect.objectContaining({ holder: 'user', holder_id: userId, nanos: 2 * ANSWER_NANOS, points: 0 }),
    ])
  })

  test('do not give way if the key has no dollar budget', async () => {
    const { gateway, account } = await startBilled({ engine, points: { Essential: 0 } })
    const { key } = await account(inDollars(1), { usageByModel: { enabled: true, dollarLimit: 0 } })
    expect((await gateway.chat({ prompt: 'hi' }, { key })).body).toMatchObject({ error: 'Completion limit exceeded' })
  })
})

describeEachEngine('dollars', (engine) => {
  const byModel = { billingMode: 'usage-by-model' } as const

  test('are used if the key requests it and the account has agreed; otherwise 403', async () => {
    const { gateway, account } = await startBilled({ engine, points: { Essential: 5 } })
    const agreed = await account(inDollars(), byModel)
    const { status, body } = await gateway.chat({ prompt: 'hi' }, { key: agreed.key })
    expect([status, body.metadata.billing_fallback]).toEqual([200, undefined])
    expect(await usageOf(gateway, agreed.key)).toEqual({
      points: 5,
      dollars: { enabled: true, dollar_limit: null, current_spend: ANSWER_NANOS / 1e9, remaining_budget: null },
    })
    const not = await account({}, byModel)
    const refused = await gateway.chat({ prompt: 'hi' }, { key: not.key })
    expect([refused.status, refused.body]).toEqual([
      403,
      expect.objectContaining({ error: 'Usage by Model required', message: expect.stringMatching(/for its owner/) }),
    ])
  })

  test('of the account and of the key both apply', async () => {
    const { gateway, account } = await startBilled({ engine })
    const dollarLimit = 0.0021
    const ofUser = await account(inDollars(dollarLimit), byModel)
    const ofKey = await account(inDollars(1), { ...byModel, usageByModel: { enabled: true, dollarLimit } })
    for (const [{ key }, whose] of [
      [ofUser, 'account'],
      [ofKey, 'API key'],
    ] as const) {
      for (let at = 0; at < 2; at++) expect((await gateway.chat({ prompt: 'hi' }, { key })).status).toBe(200)
      // The maximum cost of a third request exceeds the rest, although its actual cost would not.
      const refused = await gateway.chat({ prompt: 'hi' }, { key })
      expect([refused.status, refused.body]).toEqual([
        429,
        expect.objectContaining({
          error: 'Usage by Model budget exceeded',
          message: expect.stringContaining(`This ${whose} may spend`),
          reset_time: '2026-12-01T00:00:00.000Z',
        }),
      ])
      expect((await gateway.chat({ prompt: 'hi', max_tokens: 100 }, { key })).status).toBe(200)
    }
  })

  test('of 100 concurrent callers at the edge of a $1 budget never exceed it, and no request is billed twice', async () => {
    const { gateway, account } = await startBilled({ engine })
    const { key, userId } = await account(inDollars(1), byModel)
    const spent = { tenant_id: (await gateway.app.db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()).id }
    const before = 990_000_000
    await gateway.app.db
      .insertInto('spend_counters')
      .values({ ...spent, holder: 'user', holder_id: userId, period: '2026-11', nanos: before, points: 0 })
      .execute()
    // The reservation: two message frames and two bytes in, 1000 tokens out.
    gateway.upstream.fallback(replyJson(chatJson('long', { usage: { prompt_tokens: 66, completion_tokens: 1000 } })))
    const answers = await Promise.all(Array.from({ length: 100 }, () => gateway.chat({ prompt: 'hi' }, { key })))
    const statuses = answers.map(({ status }) => status)
    expect(statuses.filter((status) => status === 200)).toHaveLength(4)
    expect(statuses.filter((status) => status === 429)).toHaveLength(96)
    const rows = await gateway.usage()
    const total = before + rows.reduce((sum, { cost_nanos }) => sum + cost_nanos, 0)
    expect(rows).toHaveLength(4)
    expect(total).toBeLessThanOrEqual(1_000_000_000)
    expect((await usageOf(gateway, key)).dollars.current_spend).toBe(total / 1e9)
  })

  test('are exceeded at most by unpredictable costs of running requests, and then by nothing', async () => {
    const { gateway, account } = await startBilled({ engine })
    const { key } = await account(inDollars(0.01), byModel)
    const isHeld = deferred()
    const excess = 500
    // This provider ignores max_tokens.
    const body = JSON.stringify(chatJson('long', { usage: { prompt_tokens: 66, completion_tokens: 1000 + excess } }))
    gateway.upstream.fallback(replySteps([isHeld.promise, body], { contentType: 'application/json' }))
    const running = Array.from({ length: 10 }, () => gateway.chat({ prompt: 'hi' }, { key }))
    for (let at = 0; at < 4; at++) await gateway.upstream.nextRequest()
    isHeld.resolve()
    const served = (await Promise.all(running)).filter(({ status }) => status === 200).length
    const { current_spend } = (await usageOf(gateway, key)).dollars
    expect(current_spend).toBeGreaterThan(0.01)
    expect(current_spend).toBeLessThanOrEqual(0.01 + (served * excess * 2) / 1e6)
    expect((await gateway.chat({ prompt: 'hi', max_tokens: 1 }, { key })).status).toBe(429)
    expect((await usageOf(gateway, key)).dollars).toMatchObject({ current_spend, remaining_budget: 0 })
  })

  test('that running requests have reserved return: the rejection says to retry in a moment', async () => {
    const { gateway, account } = await startBilled({ engine })
    const { key } = await account(inDollars(0.003), byModel)
    const isHeld = deferred()
    const body = JSON.stringify(chatJson('ok', { usage: { prompt_tokens: 1, completion_tokens: 1 } }))
    gateway.upstream.script(replySteps([isHeld.promise, body], { contentType: 'application/json' }))
    const first = gateway.chat({ prompt: 'hi' }, { key })
    await gateway.upstream.nextRequest()
    const refused = await gateway.chat({ prompt: 'hi' }, { key })
    expect([refused.status, refused.headers['retry-after']]).toEqual([429, '2'])
    isHeld.resolve()
    expect((await first).status).toBe(200)
    expect((await gateway.chat({ prompt: 'hi' }, { key })).status).toBe(200)
  })

  test('are released when every model failed', async () => {
    const { gateway, account } = await startBilled({ engine })
    const { key } = await account(inDollars(0.003), byModel)
    gateway.upstream.script(replyJson({}, { status: 500 }))
    expect((await gateway.chat({ prompt: 'hi' }, { key })).status).toBe(502)
    expect((await gateway.chat({ prompt: 'hi' }, { key })).status).toBe(200)
    expect(await gateway.usage()).toHaveLength(1)
    expect(await gateway.app.db.selectFrom('spend_reservations').selectAll().execute()).toEqual([])
  })

  test('for vectors are reserved and billed alike', async () => {
    const { gateway, account } = await startBilled({ engine })
    const { key } = await account(inDollars(0.0001), byModel)
    const embed = (input: string) =>
      gateway.call('POST', '/api/external/v1/embeddings', { model: 'test/small', input }, { key })
    expect((await embed('two words')).status).toBe(200)
    expect((await usageOf(gateway, key)).dollars).toMatchObject({ current_spend: 0.000002 })
    const refused = await embed('many words '.repeat(20))
    expect([refused.status, refused.body.error.code]).toEqual([429, 'insufficient_quota'])
  })
})

describeEachEngine('GET /usage', (engine) => {
  test('matches the sum of all bills to the billionth of a dollar, for several models, keys and billing modes', async () => {
    const house = { ...upstreamProvider('house', 'http://unused'), prices: undefined }
    const { gateway, account } = await startBilled({ engine, points: { Essential: 12 }, providers: [house] })
    const { upstream } = gateway
    const user = await account(inDollars())
    const second = await addKey(
      gateway.app.db,
      {
        id: user.userId,
        tenant_id: (
          await gateway.app.db
            .selectFrom('users')
            .select('tenant_id')
            .where('id', '=', user.userId)
            .executeTakeFirstOrThrow()
        ).tenant_id,
      },
      { settings: { billingMode: 'usage-by-model' } },
    )
    let asked = 0
    upstream.fallback((exchange) => {
      asked += 1
      const usage = {
        prompt_tokens: 7 * asked,
        completion_tokens: 3 + asked,
        prompt_tokens_details: { cached_tokens: asked },
      }
      return replyJson(chatJson('ok', { usage }))(exchange)
    })
    await Promise.all(
      Array.from({ length: 40 }, (_, at) =>
        gateway.chat(
          { prompt: `request ${at}`, model: at % 5 === 0 ? 'local/extract' : `test/m${at % 3}` },
          { key: at % 2 === 0 ? user.key : second.secret },
        ),
      ),
    )
    const rows = await gateway.usage()
    expect(rows).toHaveLength(40)
    const sum = (key: 'points' | 'cost_nanos', mode: string) =>
      rows.filter((row) => row.billing_mode === mode).reduce((total, row) => total + row[key], 0)
    expect(await usageOf(gateway, user.key)).toEqual({
      points: 12 - sum('points', 'user-completions'),
      dollars: expect.objectContaining({ current_spend: sum('cost_nanos', 'usage-by-model') / 1e9 }),
    })
    expect(sum('points', 'user-completions')).toBe(12)
    await gateway.restart()
    expect((await usageOf(gateway, user.key)).dollars.current_spend).toBe(sum('cost_nanos', 'usage-by-model') / 1e9)
  })
})

describe('the billed usage', () => {
  const billed = async (gateway: Gateway) => {
    const [row, ...others] = await gateway.usage()
    expect(others).toEqual([])
    if (!row) return undefined
    const { input_tokens, output_tokens } = row
    expect(row.cost_nanos).toBe(input_tokens * 1_000 + output_tokens * 2_000)
    return [row.outcome, row.tokens_estimated, row.points, input_tokens, output_tokens]
  }
  const usage = { prompt_tokens: 12, completion_tokens: 7 }
  /** The gateway's estimates for the prompt `hi` and for this answer. */
  const ours = runToEnd(
    countingInputTokens({ system: '', messages: [{ role: 'user', content: 'hi' }], options: undefined }),
  )
  const said = countTokens('one two three ')
  const started = chatStream(['one two three '], { finishReason: null, done: false })

  test('of an answer that breaks off: its output, by our count', async () => {
    const { gateway } = await startBilled()
    gateway.upstream.script(replyCut(chatStream(['one two three ', 'four'], { usage }), started.length, 'reset'))
    await gateway.stream({ prompt: 'hi' })
    expect(await billed(gateway)).toEqual(['truncated', 1, 1, ours, said])
  })

  test('of an answer that breaks off after a higher provider count: that count', async () => {
    const { gateway } = await startBilled()
    const counted = { prompt_tokens: 10_000, completion_tokens: 5_000 }
    const chunk = { choices: [{ index: 0, delta: { content: 'one two three ' }, finish_reason: null }], usage: counted }
    gateway.upstream.script(replySteps([`data: ${JSON.stringify(chunk)}\n\n`], { ending: 'reset' }))
    await gateway.stream({ prompt: 'hi' })
    expect(await billed(gateway)).toEqual(['truncated', 1, 1, 10_000, 5_000])
  })

  test('of an answer counted before its last words: those words too', async () => {
    const { gateway } = await startBilled()
    const early = {
      choices: [{ index: 0, delta: { content: '' } }],
      usage: { prompt_tokens: 12, completion_tokens: 1 },
    }
    gateway.upstream.script(replyRaw(`data: ${JSON.stringify(early)}\n\n${chatStream(['one two three '], {})}`))
    await gateway.stream({ prompt: 'hi' })
    expect(await billed(gateway)).toEqual(['complete', 1, 1, Math.max(12, ours), said])
  })

  test.each([
    ['input', { prompt_tokens: 0, completion_tokens: 7 }],
    ['output', { prompt_tokens: 12, completion_tokens: 0 }],
  ])('of an answer without a provider count of %s: our own count', async (side, half) => {
    const { gateway } = await startBilled()
    gateway.upstream.script(replyJson(chatJson('one two three ', { usage: half })))
    await gateway.chat({ prompt: 'hi' })
    const [input, output] = side === 'input' ? [ours, 7] : [12, said]
    expect(await billed(gateway)).toEqual(['complete', 1, 1, input, output])
  })

  test('of an impossible count: our own instead, with a log entry', async () => {
    const { gateway } = await startBilled()
    const absurd = { prompt_tokens: 1_700_000_000_000, completion_tokens: 7 }
    gateway.upstream.script(replyJson(chatJson('one two three ', { usage: absurd })))
    expect((await gateway.chat({ prompt: 'hi' })).body.usage).toMatchObject({ prompt_tokens: ours })
    expect(await billed(gateway)).toEqual(['complete', 1, 1, ours, 7])
    expect(gateway.log.filter(({ level }) => level === 'error')).toEqual([
      expect.objectContaining({ facts: expect.objectContaining({ reported: { inputTokens: 1_700_000_000_000 } }) }),
    ])
  })

  test('of a request whose answer breaks off: its input, with its tools and images', async () => {
    const { gateway } = await startBilled()
    gateway.upstream.script(replySteps([started], { ending: 'reset' }))
    const tool = {
      name: 'weather',
      description: 'many words about what it does '.repeat(100),
      parameters: { type: 'object' },
    }
    const image = { type: 'image_url', image_url: { url: `data:image/png;base64,${'A'.repeat(2_000)}` } }
    await gateway.call('POST', OPENAI_CHAT, {
      model: 'test/any',
      stream: true,
      messages: [{ role: 'user', content: [image] }],
      tools: [{ type: 'function', function: tool }],
    })
    const plain = runToEnd(
      countingInputTokens({ system: '', messages: [{ role: 'user', content: '' }], options: undefined }),
    )
    const tools = ESTIMATED_TOKENS.tools + countTokens(JSON.stringify([tool]))
    const input = plain + tools + ESTIMATED_TOKENS.image
    expect(await billed(gateway)).toEqual(['truncated', 1, 1, input, said])
  })

  test.each(['{"a":', '[1]'])(
    'of a tool call that cannot be run: none; with the arguments %s the next model serves',
    async (broken) => {
      const { gateway } = await startBilled()
      const call = (text: string) => ({ id: 'c', type: 'function', function: { name: 'f', arguments: text } })
      const answer = (text: string, counted: object) =>
        replyJson(
          chatJson(null, {
            finishReason: 'tool_calls',
            usage: counted as typeof usage,
            message: { tool_calls: [call(text)] },
          }),
        )
      gateway.upstream.script(
        answer(broken, { prompt_tokens: 1_000, completion_tokens: 500 }),
        answer('{"a":1}', usage),
      )
      const { status, body } = await gateway.call('POST', '/api/external/v1/messages', {
        models: ['test/a', 'test/b'],
        max_tokens: 100,
        messages: [{ role: 'user', content: 'hi' }],
        tools: [{ name: 'f', input_schema: { type: 'object' } }],
      })
      expect([status, body.model, body.content]).toEqual([
        200,
        'test/b',
        [expect.objectContaining({ type: 'tool_use', input: { a: 1 } })],
      ])
      expect(await billed(gateway)).toEqual(['complete', 0, 1, 12, 7])
    },
  )

  test('of an answer that a filter or the token limit cut: all of it', async () => {
    const { gateway } = await startBilled()
    gateway.upstream.script(replyRaw(chatStream(['one '], { usage, finishReason: 'length' })))
    await gateway.stream({ prompt: 'hi' })
    expect(await billed(gateway)).toEqual(['length', 0, 1, 12, 7])
  })

  test('of a stream whose client disconnects: the output until then', async () => {
    const { gateway } = await startBilled()
    gateway.upstream.script(replySteps([started], { ending: 'hang' }))
    const leaving = new AbortController()
    const answer = await gateway.openStream({ prompt: 'hi' }, { signal: leaving.signal })
    await answer.next()
    const asked = await gateway.upstream.nextRequest()
    leaving.abort()
    await answer.next().catch(() => {})
    await asked.aborted
    await gateway.restart()
    expect(await billed(gateway)).toEqual(['aborted', 1, 1, ours, said])
  })

  test('of a held answer whose client disconnects: the generated output, although it was not sent', async () => {
    const { gateway } = await startBilled()
    const isSaid = deferred()
    gateway.upstream.script(async (exchange) => {
      await replySteps([started], { ending: 'hang' })(exchange)
      isSaid.resolve()
    })
    const leaving = new AbortController()
    const held = gateway.stream({ prompt: 'hi', redundancy: { commit: 'complete' } }, { signal: leaving.signal })
    const asked = await gateway.upstream.nextRequest()
    await isSaid.promise
    leaving.abort()
    await expect(held).rejects.toThrow()
    await asked.aborted
    await gateway.restart()
    expect(await billed(gateway)).toEqual(['aborted', 1, 1, ours, said])
  })

  test('of an answer without output when its client disconnects: nothing', async () => {
    const { gateway } = await startBilled()
    gateway.upstream.script(replySteps([], { ending: 'hang' }))
    const leaving = new AbortController()
    const whole = gateway.chat({ prompt: 'hi' }, { signal: leaving.signal })
    const asked = await gateway.upstream.nextRequest()
    leaving.abort()
    await expect(whole).rejects.toThrow()
    await asked.aborted
    await gateway.restart()
    expect(await billed(gateway)).toBeUndefined()
  })

  test('is that of the serving model, not of failed ones', async () => {
    const prices = { dear: { input: 100, output: 100, points: 9 } }
    // No server listens on this port.
    const house = { ...upstreamProvider('house', 'http://127.0.0.1:1/v1'), prices }
    const { gateway } = await startBilled({ providers: [house] })
    gateway.upstream.script(replyJson(chatJson('ok', { usage })))
    const { body } = await gateway.chat({ prompt: 'hi', models: ['house/dear', 'test/any'] })
    expect(body.model).toBe('test/any')
    expect(await gateway.usage()).toEqual([
      expect.objectContaining({ served_model: 'test/any', points: 1, cost_nanos: 12 * 1_000 + 7 * 2_000 }),
    ])
  })

  test('of a repeat with the same Idempotency-Key: nothing', async () => {
    const { gateway, account } = await startBilled({ points: { Essential: 1 } })
    const { key } = await account()
    const options = { key, headers: { 'idempotency-key': 'order-1138' } }
    for (let at = 0; at < 3; at++) expect((await gateway.chat({ prompt: 'hi' }, options)).status).toBe(200)
    expect(await billed(gateway)).toEqual(['complete', 0, 1, 11, 5])
  })

  test('of a model without a price: a high one, with one alarm per hour', async () => {
    const clock = createFakeClock(NOW)
    const { gateway } = await startBilled({ clock })
    const unknown = await startBilled({
      clock,
      providers: [{ ...upstreamProvider('house', gateway.upstream.url), prices: undefined }],
    })
    const alarms = () =>
      unknown.gateway.log.filter(({ message }) => message.startsWith('the price of this model is unknown'))
    const ask = () => unknown.gateway.chat({ prompt: 'hi', model: 'house/x' })
    const { body } = await ask()
    await ask()
    expect(alarms()).toEqual([
      expect.objectContaining({ level: 'error', facts: { model: 'house/x', request_id: body.id } }),
    ])
    clock.advance(3_600_000)
    await ask()
    expect(alarms()).toHaveLength(2)
    expect(await unknown.gateway.usage()).toEqual(
      Array(3).fill(expect.objectContaining({ price_missing: 1, cost_nanos: 11 * 15_000 + 5 * 75_000, points: 2 })),
    )
  })
})

test('PUT /users grants a user dollars from the next request on', async () => {
  const { gateway, account } = await startBilled()
  const { key, userId } = await account({}, { billingMode: 'usage-by-model' })
  const change = (usageByModel: object) => gateway.call('PUT', `/api/external/users/${userId}`, { usageByModel })
  expect((await gateway.chat({ prompt: 'hi' }, { key })).status).toBe(403)
  expect((await change({ enabled: true })).body.user.usageByModel).toEqual({ enabled: true, dollarLimit: null })
  expect((await gateway.chat({ prompt: 'hi' }, { key })).status).toBe(200)
  expect((await change({ dollarLimit: 0.00001 })).body.user.usageByModel).toEqual({
    enabled: true,
    dollarLimit: 0.00001,
  })
  expect((await gateway.chat({ prompt: 'hi' }, { key })).status).toBe(429)
  for (const dollarLimit of [-1, 9_000_001, '5']) expect((await change({ dollarLimit })).status).toBe(400)
  const entries = await recordedChanges(gateway.app.db)
  expect(entries.map(({ metadata }) => metadata.changes)).toEqual([
    { usageByModelEnabled: true },
    { dollarLimit: 0.00001 },
  ])
})

test('a user in user_id must exist', async () => {
  const { gateway } = await startBilled()
  for (const user_id of [newId(), 'nobody']) {
    const { status, body } = await gateway.chat({ prompt: 'hi', user_id })
    expect([status, body]).toEqual([400, expect.objectContaining({ error: 'Invalid user_id' })])
  }
})
