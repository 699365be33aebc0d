import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type FakeGateway, flatError, json, KEY, modelList, startFakeGateway } from '../fake-gateway.ts'
import { type CliOptions, runCli } from '../run-cli.ts'

let gateway: FakeGateway
beforeEach(async () => {
  gateway = await startFakeGateway()
})
afterEach(() => gateway.close())

const models = (words: string[], options: CliOptions = {}) =>
  runCli(['models', ...words], { ...options, env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: KEY, NO_COLOR: '1' } })

describe('models list', () => {
  test('prints what the key may use, in every format', async () => {
    const [titles, ...rows] = (await models(['list'])).stdout.trimEnd().split('\n')
    expect(titles?.split('\t')).toEqual([
      ...['id', 'provider', 'context_length', 'max_output_tokens', 'modalities.input', 'prices.input', 'prices.output'],
    ])
    expect(rows.map((row) => row.split('\t').slice(0, 2))).toEqual([
      ['local/extract', 'local'],
      ['openai/gpt-4o', 'openai'],
      ['mistral/*', 'mistral'],
    ])
    expect((await models(['ls', '-o', 'id'])).stdout).toBe('local/extract\nopenai/gpt-4o\nmistral/*\n')
    expect(JSON.parse((await models(['list', '--json'])).stdout)[0]).toEqual({
      id: 'local/extract',
      name: 'local/extract',
      provider: 'local',
    })
    expect((await models(['list'], { terminal: { stdout: true } })).stdout).toMatch(
      /^MODEL +PROVIDER +CONTEXT +OUTPUT +ACCEPTS +\$ IN +\$ OUT\n/,
    )
  })

  test('shows the limits, modalities and prices of models and names', async () => {
    const details = {
      context_length: 128_000,
      max_output_tokens: 16_384,
      modalities: { input: ['text', 'image'], output: ['text'] },
      prices: { input: 2.5, output: 10, cache_read: 1.25, cache_write: 2.5, cache_write_1h: 2.5, points: 2 },
    }
    const smart = { id: 'smart', name: 'smart', provider: 'gateway', ...details }
    gateway.on('GET /api/external/models', json(200, { success: true, models: [smart] }))
    expect((await models(['list'])).stdout.split('\n')[1]).toBe('smart\tgateway\t128000\t16384\ttext,image\t2.5\t10')
    expect(JSON.parse((await models(['show', 'smart', '--json'])).stdout)).toEqual(smart)
  })

  test('lets the gateway choose by provider; none is an empty list', async () => {
    gateway.on('GET /api/external/models', modelList([]))
    expect(await models(['list', '--provider', 'a&b', '--json'])).toEqual({ exitCode: 0, stdout: '[]\n', stderr: '' })
    expect(gateway.requests[0]?.path).toBe('/api/external/models?provider=a%26b')
  })
})

describe('models show', () => {
  test('finds a model, and one that a whole provider stands for', async () => {
    expect(await models(['show', 'openai/gpt-4o', '-o', 'id'])).toMatchObject({
      exitCode: 0,
      stdout: 'openai/gpt-4o\n',
    })
    expect(await models(['get', 'mistral/large', '-o', 'id'])).toEqual({
      exitCode: 0,
      stdout: 'mistral/*\n',
      stderr: "note: this key may use any model of 'mistral'\n",
    })
  })

  test.each(['openai/gpt-4', 'mistral/', '/large', 'gpt-4o', '__proto__'])('exits 3 for %s', async (id) => {
    const { exitCode, stdout, stderr } = await models(['show', id])
    expect({ exitCode, stdout }).toEqual({ exitCode: 3, stdout: '' })
    expect(stderr).toContain('aigw models list')
  })

  test('says what was probably meant', async () => {
    expect((await models(['show', 'openai/gpt4o'])).stderr).toContain("Did you mean 'openai/gpt-4o'?")
  })
})

describe('models test', () => {
  const ROUTE = 'POST /api/external/chat/completions'

  test('asks for one token and prints how long it took', async () => {
    const result = await models(['test', 'local/extract', '--json'])
    expect(result).toMatchObject({ exitCode: 0, stderr: '' })
    expect(JSON.parse(result.stdout)).toEqual({
      model: 'local/extract',
      first_token_ms: expect.any(Number),
      total_ms: expect.any(Number),
      prompt_tokens: 412,
      completion_tokens: 38,
    })
    expect(gateway.requests.at(-1)?.json).toEqual({
      ...{ prompt: 'ping', model: 'local/extract', index: 'Zero-Knowledge', max_tokens: 1, stream: true },
    })
  })

  test('accepts a name, which one of its models serves', async () => {
    expect(await models(['test', 'smart', '--field', 'model'])).toMatchObject({ exitCode: 0, stdout: 'smart\n' })
  })

  test('exits 8 when the model fails, or another one answers in its place', async () => {
    expect(await models(['test', 'openai/gpt-4o'])).toMatchObject({ exitCode: 8, stdout: '' })
    gateway.on(ROUTE, flatError(502, 'All model attempts failed', 'Nobody answered.'))
    expect(await models(['test', 'local/extract'])).toMatchObject({ exitCode: 8, stdout: '' })
  })

  test('says what to do when the provider rejects the key of the gateway', async () => {
    const attempts = [{ model: 'openai/gpt-4o', status: 'failed', reason: 'auth_failed', latency_ms: 80 }]
    const message = 'All 1 model attempt(s) failed (last: openai/gpt-4o — auth_failed)'
    gateway.on(ROUTE, flatError(502, 'All model attempts failed', message, { attempts }))
    const { exitCode, stderr } = await models(['test', 'openai/gpt-4o'])
    expect(exitCode).toBe(8)
    expect(stderr).toContain(message)
    expect(stderr).toContain("check the key of 'openai' in the gateway's configuration")
  })

  test('refuses what is no model before anything is billed', async () => {
    expect((await models(['test', '/nonsense'])).exitCode).toBe(2)
    expect((await models(['test', 'a/b', '--field', 'nope'])).exitCode).toBe(2)
    expect(gateway.requests).toEqual([])
  })
})
