import { beforeAll, describe, expect, test } from 'vitest'
import { sharedGateway } from '../../harness.ts'
import { runCli } from '../run-cli.ts'

describe('what show prints', () => {
  const gateway = sharedGateway()
  const aigw = (words: string[], stdin = '') =>
    runCli(words, {
      stdin,
      env: { AIGW_BASE_URL: gateway.current.url, AIGW_API_KEY: gateway.current.adminKey, NO_COLOR: '1' },
    })
  const shown = async (noun: string, id: string) => JSON.parse((await aigw([noun, 'show', id, '--json'])).stdout)
  const ids = new Map<string, string>()

  beforeAll(async () => {
    const created: [string, string, string[]][] = [
      ['users', 'user', ['Ada', '--email', 'ada@example.com', '--usage-by-model', 'on', '--dollar-limit', '5']],
      ['roles', 'role', ['auditor', '--display-name', 'Auditor', '-d', 'Reads', '--permission', 'home=reader']],
      ['groups', 'group', ['support', '-d', 'Tier 1', '--user', 'ada@example.com']],
    ]
    for (const [noun, , words] of created) {
      const { exitCode, stdout, stderr } = await aigw([noun, 'create', ...words, '-o', 'id'])
      expect(exitCode, stderr).toBe(0)
      ids.set(noun, stdout.trim())
    }
    const made = await aigw(['keys', 'create', '--name', 'ci', '--user', 'ada@example.com', '--json'])
    ids.set('keys', JSON.parse(made.stdout).id)
  })

  test.each([
    ['users', { name: 'Ada Lovelace' }],
    ['roles', { description: 'Reads along' }],
    ['groups', { status: 'Inactive' }],
    ['keys', { dailyLimit: 7 }],
  ])('of %s may be edited and given to update --from-file', async (noun, change) => {
    const id = ids.get(noun) ?? ''
    const before = await shown(noun, id)
    const edited = await aigw([noun, 'update', id, '--from-file', '-'], JSON.stringify({ ...before, ...change }))
    expect(edited.exitCode, edited.stderr).toBe(0)
    expect(await shown(noun, id)).toEqual({ ...before, ...change, updatedAt: expect.any(String) })
  })

  test.each(['users', 'roles', 'groups', 'keys'])(
    'of %s says no when a member that only the gateway sets is another one',
    async (noun) => {
      const id = ids.get(noun) ?? ''
      const before = await shown(noun, id)
      const edited = { ...before, createdAt: '2001-01-01T00:00:00.000Z' }
      const { exitCode, stderr } = await aigw([noun, 'update', id, '--from-file', '-'], JSON.stringify(edited))
      expect([exitCode, stderr]).toEqual([2, expect.stringContaining('createdAt is read-only.')])
      expect(await shown(noun, id)).toEqual(before)
    },
  )

  test('is none of what create takes', async () => {
    for (const noun of ['users', 'roles', 'groups', 'keys']) {
      const file = JSON.stringify({ name: 'other', id: '0'.repeat(24) })
      const { exitCode, stderr } = await aigw([noun, 'create', '--from-file', '-'], file)
      expect([noun, exitCode, stderr]).toEqual([noun, 2, expect.stringContaining("unknown member 'id'")])
    }
  })

  test('a key that may only read an index is told how to write to it', async () => {
    const admin = gateway.current.adminKey
    expect((await gateway.current.call('POST', '/api/external/indexes', { name: 'handbook' })).status).toBe(201)
    const { secret } = (
      await gateway.current.call('POST', '/api/admin/api-keys', { name: 'chat', adminAccess: false }, { key: admin })
    ).body
    const { exitCode, stderr } = await runCli(['indexes', 'add', 'handbook', '-', '--name', 'notes.md'], {
      stdin: '# Notes',
      env: { AIGW_BASE_URL: gateway.current.url, AIGW_API_KEY: secret, NO_COLOR: '1' },
    })
    expect(exitCode).toBe(5)
    expect(stderr).toContain('This key may only read the index "handbook".')
    expect(stderr).toContain('aigw keys update KEY --index-access write')
  })
})
