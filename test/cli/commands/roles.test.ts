import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { SECTIONS } from '../../../src/shared/permissions.ts'
import { sharedGateway } from '../../harness.ts'
import { type FakeGateway, KEY, startFakeGateway } from '../fake-gateway.ts'
import { runCli } from '../run-cli.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aigw-cli-'))
})
afterEach(() => rm(folder, { recursive: true }))

async function fileWith(text: string): Promise<string> {
  const path = join(folder, 'role.yaml')
  await writeFile(path, text)
  return path
}

const AUDITOR = ['--display-name', 'Auditor', '-d', 'Reads along']

describe('with a gateway', () => {
  const gateway = sharedGateway()
  const roles = (words: string[]) =>
    runCli(['roles', ...words], {
      env: { AIGW_BASE_URL: gateway.current.url, AIGW_API_KEY: gateway.current.adminKey },
    })
  const shown = async (role: string) => JSON.parse((await roles(['show', role, '-o', 'json'])).stdout)

  test('create sends the named fields and prints the role without its wrapper', async () => {
    const permissions = ['--permission', 'analytics=reader', '--permission', 'settings=admin']
    const created = await roles([
      'create',
      'auditor',
      ...AUDITOR,
      ...permissions,
      '--admin-panel',
      '--no-chat',
      '--json',
    ])
    expect(created).toMatchObject({ exitCode: 0, stderr: '' })
    const role = JSON.parse(created.stdout)
    expect(role).toMatchObject({
      name: 'auditor',
      displayName: 'Auditor',
      description: 'Reads along',
      hasAdminPanelAccess: true,
      permissions: expect.arrayContaining([
        { section: 'analytics', level: 'reader' },
        { section: 'settings', level: 'admin' },
      ]),
      canInteractWithAI: true,
      canUseChat: false,
    })
    expect(await shown('auditor')).toEqual(role)
    expect(await shown(role.id)).toEqual(role)
  })

  test('create --if-not-exists compares what was named, whatever the order of the permissions', async () => {
    const create = (...more: string[]) => roles(['create', 'twice', ...AUDITOR, '--if-not-exists', '-o', 'id', ...more])
    const panel = ['--admin-panel', '--permission', 'home=reader', '--permission', 'settings=reader']
    const { stdout, stderr } = await create(...panel)
    expect(stderr).toBe('')
    const other = ['--permission', 'settings=reader', '--permission', 'home=reader', '--permission', 'analytics=none']
    expect(await create(...other, '--strict')).toMatchObject({ exitCode: 0, stdout })
    const differs = await create('--permission', 'home=admin', '--no-ai')
    expect(differs).toEqual({
      exitCode: 0,
      stdout,
      stderr: "note: role 'twice' already exists; left unchanged (differs: permissions, canInteractWithAI)\n",
    })
    expect(await create('--no-ai', '--strict')).toMatchObject({ exitCode: 6, stdout: '' })
    expect((await roles(['create', 'twice', ...AUDITOR])).stderr).toContain('aigw roles show twice')
  })

  test('update leaves the sections and flags alone that were not named', async () => {
    await roles(['create', 'stays', ...AUDITOR, '--admin-panel', '--no-ai', '--permission', 'home=reader'])
    expect((await roles(['update', 'stays', '--permission', 'analytics=admin'])).exitCode).toBe(0)
    const bySection = async () =>
      Object.fromEntries(
        (await shown('stays')).permissions.map(({ section, level }: Record<string, string>) => [section, level]),
      )
    expect(await bySection()).toEqual({ home: 'reader', analytics: 'admin' })
    await roles(['update', 'stays', '--permission', 'home=none', '--chat', '--display-name', 'Stays'])
    expect(await bySection()).toMatchObject({ analytics: 'admin' })
    expect((await bySection()).home ?? 'none').toBe('none')
    expect(await shown('stays')).toMatchObject({
      displayName: 'Stays',
      description: 'Reads along',
      hasAdminPanelAccess: true,
      canInteractWithAI: false,
      canUseChat: true,
    })
  })

  test('one file makes a role and changes it, with permissions as a map or as the API has them', async () => {
    const text = (permissions: string) =>
      `name: filed\ndisplayName: Filed\ndescription: x\nhasAdminPanelAccess: true\npermissions: ${permissions}\n`
    const first = await fileWith(text('{ home: reader, analytics: reader }'))
    expect(await roles(['create', '--from-file', first, '--permission', 'home=admin'])).toMatchObject({ exitCode: 0 })
    expect((await shown('filed')).permissions).toHaveLength(2)
    expect((await shown('filed')).permissions).toContainEqual({ section: 'home', level: 'admin' })
    const second = await fileWith(text('[{ section: settings, level: reader }]'))
    expect((await roles(['update', 'filed', '--from-file', second])).exitCode).toBe(0)
    expect((await shown('filed')).permissions).toEqual([{ section: 'settings', level: 'reader' }])
    await roles(['create', 'unfiled', ...AUDITOR])
    const { exitCode, stderr } = await roles(['update', 'unfiled', '--from-file', second])
    expect({ exitCode, stderr }).toEqual({ exitCode: 2, stderr: expect.stringContaining('cannot be renamed') })
  })

  test('permissions without effect are noted', async () => {
    const { exitCode, stderr } = await roles(['create', 'closed', ...AUDITOR, '--permission', 'home=reader'])
    expect({ exitCode, stderr }).toEqual({
      exitCode: 0,
      stderr: "note: the permissions of 'closed' have no effect without --admin-panel\n",
    })
    expect((await roles(['update', 'closed', '--admin-panel'])).stderr).toBe('')
  })

  test('system roles are listed and can be neither changed nor deleted', async () => {
    const names = async (flag: string) => (await roles(['list', flag, '--field', 'name'])).stdout.split('\n')
    expect(await names('--system')).toEqual(expect.arrayContaining(['admin', 'user', 'globalReader']))
    expect(await names('--custom')).not.toContain('admin')
    expect((await roles(['update', 'user', '--no-ai'])).exitCode).toBe(5)
    expect((await roles(['delete', 'user', '-y'])).exitCode).toBe(5)
  })

  test('delete removes the role', async () => {
    await roles(['create', 'short', ...AUDITOR])
    expect(await roles(['delete', 'short', '-y'])).toEqual({
      exitCode: 0,
      stdout: '',
      stderr: "Deleted role 'short'.\n",
    })
    expect((await roles(['show', 'short'])).exitCode).toBe(3)
  })
})

describe('before anything is sent', () => {
  let gateway: FakeGateway
  beforeEach(async () => {
    gateway = await startFakeGateway()
  })
  afterEach(() => gateway.close())

  test.each([
    [
      ['--permission', 'analytics=reader', '--permission', 'smltp-secuirty=reader'],
      "error: unknown permission section 'smltp-secuirty'\n  Did you mean 'smltp-security'?   All sections: aigw roles sections\n",
    ],
    [
      ['--permission', 'analytics=raeder'],
      "error: unknown level of analytics 'raeder'\n  Did you mean 'reader'?   Levels: none, reader, admin\n",
    ],
    [
      ['--permission', 'Home=reader'],
      "error: unknown permission section 'Home'\n  Did you mean 'home'?   All sections: aigw roles sections\n",
    ],
    [
      ['--permission', 'toString=admin'],
      "error: unknown permission section 'toString'\n  All sections: aigw roles sections\n",
    ],
    [
      ['--permission', 'analytics'],
      "error: 'analytics' is not a permission\n  Write SECTION=LEVEL:  --permission analytics=reader\n",
    ],
    [
      ['--permission', 'home=reader', '--permission', 'home=admin'],
      "error: permission section 'home' is named twice\n",
    ],
  ])('%j is a mistake that is explained', async (flags, stderr) => {
    for (const words of [
      ['create', 'auditor', ...AUDITOR],
      ['update', 'auditor'],
    ]) {
      const result = await runCli(['roles', ...words, ...flags], {
        env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: KEY },
      })
      expect(result).toEqual({ exitCode: 2, stdout: '', stderr })
    }
    expect(gateway.requests).toEqual([])
  })

  test.each([
    ['permissions: { analytics: raeder }', "unknown level of analytics 'raeder'"],
    ['permissions: [{ section: anlytics, level: reader }]', "Did you mean 'analytics'?"],
    ['permissions: [analytics]', 'unknown permission section'],
    ['permissions: all', 'must be a list of {section, level}, or a map'],
    ['displayname: x', "Did you mean 'displayName'?"],
  ])('the file %j is a mistake that is explained', async (text, message) => {
    const words = ['roles', 'update', 'auditor', '--from-file', await fileWith(text)]
    const { exitCode, stderr } = await runCli(words, { env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: KEY } })
    expect(exitCode).toBe(2)
    expect(stderr).toContain(message)
    expect(gateway.requests).toEqual([])
  })
})

test('sections prints the ten sections with their three levels, without a gateway or a key', async () => {
  const { exitCode, stdout } = await runCli(['roles', 'sections', '-o', 'json'])
  expect(exitCode).toBe(0)
  const levels = ['none', 'reader', 'admin']
  expect(JSON.parse(stdout)).toEqual(SECTIONS.map((section) => ({ section, levels })))
  expect((await runCli(['roles', 'sections', '-o', 'id'])).stdout).toBe(`${SECTIONS.join('\n')}\n`)
})
