import { afterEach, beforeEach, expect, test } from 'vitest'
import { BUDGET, type FakeGateway, KEY, startFakeGateway } from '../fake-gateway.ts'
import { runCli } from '../run-cli.ts'

let gateway: FakeGateway
beforeEach(async () => {
  gateway = await startFakeGateway()
})
afterEach(() => gateway.close())

const budgets = (...words: string[]) =>
  runCli(['budgets', ...words], { env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: KEY, NO_COLOR: '1' } })

test('create sends the scope, its subject and the limit', async () => {
  const { exitCode, stdout } = await budgets('create', '--tag', 'team-a', '--limit', '12.50', '--json')
  expect([exitCode, JSON.parse(stdout)]).toEqual([0, BUDGET])
  expect(gateway.requests.at(-1)?.json).toEqual({ scope: 'tag', subject: 'team-a', dollarLimit: 12.5 })
  await budgets('create', '--group', '3'.repeat(24), '--limit', '7')
  expect(gateway.requests.at(-1)?.json).toEqual({ scope: 'group', subject: '3'.repeat(24), dollarLimit: 7 })
})

test('create needs exactly one of --group, --tag and --tenant, and a limit in dollars', async () => {
  for (const words of [
    ['--limit', '1'],
    ['--tag', 'a'],
    ['--tag', 'a', '--tenant', '6'.repeat(24), '--limit', '1'],
    ['--tag', 'a', '--limit', 'x'],
  ])
    expect((await budgets('create', ...words)).exitCode).toBe(2)
  expect(gateway.requests.filter(({ method }) => method === 'POST')).toEqual([])
})

test('update finds the budget of a tag by its name', async () => {
  expect((await budgets('update', 'team-a', '--limit', '300')).exitCode).toBe(0)
  const { method, path, json } = gateway.requests.at(-1) ?? {}
  expect([method, path, json]).toEqual(['PUT', `/api/admin/budgets/${BUDGET.id}`, { dollarLimit: 300 }])
})
