import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { sharedGateway } from '../../harness.ts'
import { type FakeGateway, KEY, startFakeGateway } from '../fake-gateway.ts'
import { type CliOptions, runCli } from '../run-cli.ts'

describe('aigw cache', () => {
  let gateway: FakeGateway
  beforeEach(async () => {
    gateway = await startFakeGateway()
  })
  afterEach(() => gateway.close())

  const cache = (words: string[], options: CliOptions = {}) =>
    runCli(['cache', ...words], { ...options, env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: KEY, NO_COLOR: '1' } })

  test('show prints the settings and the size', async () => {
    expect(JSON.parse((await cache(['show', '--json'])).stdout)).toMatchObject({ enabled: true, entries: 2 })
    const { stdout } = await cache(['show'], { terminal: { stdout: true } })
    expect(stdout).toMatch(/^ANSWERS +2$/m)
  })

  test('clear asks first, and says how many answers it deleted', async () => {
    const refused = await cache(['clear'])
    expect(refused.exitCode).not.toBe(0)
    expect(gateway.requests.filter(({ method }) => method === 'DELETE')).toEqual([])
    const done = await cache(['clear', '--yes'])
    expect(done).toMatchObject({ exitCode: 0, stderr: expect.stringContaining('Deleted 2 stored answers.') })
    expect(gateway.requests.at(-1)).toMatchObject({ method: 'DELETE', path: '/api/admin/cache' })
  })
})

describe('aigw cache with a gateway', () => {
  const gateway = sharedGateway({ cache: { enabled: true } })
  test('clears the stored answers', async () => {
    const env = { AIGW_BASE_URL: gateway.current.url, AIGW_API_KEY: gateway.current.adminKey }
    await gateway.current.chat({ prompt: 'hi' }, { headers: { 'x-aigw-cache': 'use' } })
    const shown = () => runCli(['cache', 'show', '--field', 'entries'], { env })
    expect((await shown()).stdout).toBe('1\n')
    expect((await runCli(['cache', 'clear', '--yes'], { env })).exitCode).toBe(0)
    expect((await shown()).stdout).toBe('0\n')
  })
})
