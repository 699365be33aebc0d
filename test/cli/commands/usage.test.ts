import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { sharedGateway } from '../../harness.ts'
import { COST_REPORT, type FakeGateway, KEY, startFakeGateway, USAGE } from '../fake-gateway.ts'
import { type CliOptions, runCli } from '../run-cli.ts'

describe('usage', () => {
  let gateway: FakeGateway
  beforeEach(async () => {
    gateway = await startFakeGateway()
  })
  afterEach(() => gateway.close())

  const usage = (words: string[], options: CliOptions = {}) =>
    runCli(['usage', ...words], { ...options, env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: KEY, NO_COLOR: '1' } })

  test('is a card on a terminal, where a dash stands for no limit', async () => {
    const { stdout } = await usage([], { terminal: { stdout: true } })
    expect(stdout).toMatch(/^KEY +bootstrap$/m)
    expect(stdout).toMatch(/^LEFT TODAY +97$/m)
    expect(stdout).toMatch(/^MONTHLY LIMIT +-$/m)
  })

  test('is the resource without its wrapper in JSON and YAML, one value with --field, and the body with --raw', async () => {
    expect(JSON.parse((await usage(['--json'])).stdout)).toEqual(USAGE)
    expect((await usage(['-o', 'yaml'])).stdout).toContain('daily:\n    used: 3\n')
    expect((await usage(['--field', 'api_key.daily.used'])).stdout).toBe('3\n')
    expect((await usage(['--fields', 'api_key.daily.remaining', '-o', 'tsv', '--no-headers'])).stdout).toBe('97\n')
    expect(JSON.parse((await usage(['--raw'])).stdout)).toEqual({ success: true, ...USAGE })
  })

  test('report asks for its groups and days, and prints CSV', async () => {
    const words = [
      'report',
      '--by',
      'user',
      '--by',
      'tag',
      '--since',
      '2026-01-01',
      '--until',
      '2026-01-31',
      '-o',
      'csv',
    ]
    const { exitCode, stdout } = await usage(words)
    expect([exitCode, stdout]).toEqual([
      0,
      'userName,userId,tag,requests,inputTokens,outputTokens,points,dollars,listPrice\n' +
        `"Ada, ""the"" first",${'e'.repeat(24)},team-a,2,30,4,0,0.000000001,12.5\n`,
    ])
    expect(gateway.requests.at(-1)?.path).toBe(
      '/api/external/usage/report?by=user%2Ctag&since=2026-01-01&until=2026-01-31',
    )
    expect(await usage(['report', '--by', 'month'])).toMatchObject({ exitCode: 2 })
    expect(JSON.parse((await usage(['report', '--json'])).stdout)).toEqual(COST_REPORT.rows)
  })

  test('has no id', async () => {
    expect(await usage(['-o', 'id'])).toMatchObject({ exitCode: 2, stdout: '' })
  })
})

describe('usage of a gateway', () => {
  const gateway = sharedGateway()
  test('shows the key that asks', async () => {
    const env = { AIGW_BASE_URL: gateway.current.url, AIGW_API_KEY: gateway.current.adminKey }
    const { exitCode, stdout } = await runCli(['usage', '--json'], { env })
    expect(exitCode).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ api_key: { daily: { limit: null } } })
  })
})
