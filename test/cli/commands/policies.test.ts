import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { toSetting, toSettingTexts, withSettings } from '../../../src/cli/commands/policies/document.ts'
import { PolicyDocument } from '../../../src/shared/wire/policies.ts'
import { addKey, addUser } from '../../accounts.ts'
import { sharedGateway } from '../../harness.ts'
import { type FakeGateway, KEY, startFakeGateway } from '../fake-gateway.ts'
import { runCli } from '../run-cli.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aigw-cli-'))
})
afterEach(() => rm(folder, { recursive: true }))

async function fileWith(text: string): Promise<string> {
  const path = join(folder, 'policy.yaml')
  await writeFile(path, text)
  return path
}

describe('with a gateway', () => {
  const gateway = sharedGateway()
  const policies = (words: string[], key = gateway.current.adminKey) =>
    runCli(['policies', ...words], { env: { AIGW_BASE_URL: gateway.current.url, AIGW_API_KEY: key } })
  const shown = async (...words: string[]) => JSON.parse((await policies(['show', ...words, '-o', 'json'])).stdout)

  test('create sends the named fields and prints the policy without its wrapper', async () => {
    const created = await policies([
      ...['create', 'Health Data', '-d', 'About patients', '--set', 'pii.enabled=true', '--set', 'retentionDays=7'],
      ...['--set', 'allowedProviders=test,local', '--set', 'pii.entities=EMAIL', '--json'],
    ])
    expect(created).toMatchObject({ exitCode: 0, stderr: '' })
    const policy = JSON.parse(created.stdout)
    expect(policy).toMatchObject({
      id: 'health-data',
      name: 'Health Data',
      description: 'About patients',
      isActive: false,
      policy: PolicyDocument.parse({
        pii: { enabled: true, entities: ['EMAIL'] },
        retentionDays: 7,
        allowedProviders: ['local', 'test'],
      }),
    })
    for (const name of ['health-data', 'HEALTH data', ' Health Data ']) expect(await shown(name)).toEqual(policy)
  })

  test('create --if-not-exists compares what was named, and leaves the policy as it is', async () => {
    const create = (...more: string[]) =>
      policies(['create', 'Twice', '-d', 'x', '--if-not-exists', '-o', 'id', ...more])
    expect(await create('--set', 'deniedModels=a/a,b/b')).toMatchObject({ exitCode: 0, stdout: 'twice\n', stderr: '' })
    expect(await create('--set', 'deniedModels=b/b,a/a', '--strict')).toMatchObject({
      exitCode: 0,
      stderr: "note: policy 'Twice' already exists; left unchanged\n",
    })
    expect(await create('--set', 'deniedModels=a/a')).toMatchObject({
      exitCode: 0,
      stderr: "note: policy 'Twice' already exists; left unchanged (differs: policy)\n",
    })
    expect((await create('--activate', '--strict')).exitCode).toBe(6)
    expect(await policies(['create', 'twice', '-d', 'x'])).toMatchObject({
      exitCode: 6,
      stderr: expect.stringContaining('aigw policies show twice'),
    })
  })

  test('update changes the fields it names and leaves all others alone', async () => {
    await policies(['create', 'Stays', '-d', 'x', '--set', 'pii.enabled=true', '--set', 'deniedModels=a/a'])
    expect(await policies(['update', 'stays', '--set', 'pii.direction=input', '-d', 'y'])).toMatchObject({
      exitCode: 0,
    })
    const { description, policy } = await shown('stays')
    expect({ description, policy }).toEqual({
      description: 'y',
      policy: PolicyDocument.parse({ pii: { enabled: true, direction: 'input' }, deniedModels: ['a/a'] }),
    })
  })

  test('one file makes a policy and changes it; its document replaces the whole', async () => {
    const text = (policy: string) => `name: Filed\ndescription: x\npolicy: ${policy}\n`
    const first = await fileWith(text('{ deniedModels: [a/a], retentionDays: 7 }'))
    expect(await policies(['create', '--from-file', first, '--set', 'retentionDays=9'])).toMatchObject({ exitCode: 0 })
    expect((await shown('filed')).policy).toEqual(PolicyDocument.parse({ deniedModels: ['a/a'], retentionDays: 9 }))
    const second = await fileWith(text('{ deniedModels: [b/b] }'))
    expect((await policies(['update', 'filed', '--from-file', second])).exitCode).toBe(0)
    expect((await shown('filed')).policy).toEqual(PolicyDocument.parse({ deniedModels: ['b/b'] }))
    await policies(['create', 'Unfiled', '-d', 'x'])
    const { exitCode, stderr } = await policies(['update', 'unfiled', '--from-file', second])
    expect({ exitCode, stderr }).toEqual({ exitCode: 2, stderr: expect.stringContaining('cannot be renamed') })
  })

  test('an invalid document is reported with its field', async () => {
    const { exitCode, stderr } = await policies(['create', 'Wrong', '-d', 'x', '--set', 'pii.enabeld=true'])
    expect({ exitCode, stderr }).toEqual({ exitCode: 2, stderr: expect.stringContaining('did you mean "enabled"?') })
  })

  test('list shows the built-in ones and ours; a key without rights, those it may request', async () => {
    await policies(['create', 'Listed', '-d', 'x'])
    const ids = (await policies(['list', '-o', 'id'])).stdout.split('\n')
    expect(ids).toEqual(expect.arrayContaining(['public', 'pci-dss', 'listed']))
    const { db } = gateway.current.app
    const { tenant_id } = await db.selectFrom('api_keys').select('tenant_id').executeTakeFirstOrThrow()
    const { secret } = await addKey(db, await addUser(db, { tenant_id }))
    expect(await policies(['list', '-o', 'id'], secret)).toEqual({
      exitCode: 0,
      stdout: 'public\ninternal\n',
      stderr: 'note: this key is not an administrator; showing the policies it may request\n',
    })
  })

  test('activate makes a policy the active one, which show prints when it is given no name', async () => {
    await policies(['create', 'Chosen', '-d', 'x'])
    expect((await shown()).id).toBe('internal')
    expect(JSON.parse((await policies(['activate', 'CHOSEN', '--json'])).stdout)).toMatchObject({ isActive: true })
    expect(await shown()).toMatchObject({ id: 'chosen', isActive: true })
    expect((await policies(['delete', 'chosen', '-y'])).exitCode).toBe(6)
    expect((await policies(['activate', 'internal'])).exitCode).toBe(0)
    expect((await policies(['activate', 'nothing'])).exitCode).toBe(3)
  })

  test('show --effective joins a policy with the active baseline; show notes what the active policy leaves open', async () => {
    const gaps = await policies(['show'])
    expect(gaps.stderr).toMatch(/^note: the active policy 'internal' leaves gaps: personal data is only recorded; /)
    await policies(['create', 'Floor', '-d', 'x', '--set', 'baseline=true', '--set', 'attachments=block', '--activate'])
    const joined = await policies(['show', 'public', '--effective', '--json'])
    expect(joined).toMatchObject({ exitCode: 0, stderr: "note: joined with the baseline 'floor'\n" })
    expect(JSON.parse(joined.stdout)).toMatchObject({ id: 'public', policy: { baseline: true, attachments: 'block' } })
    expect((await shown('public')).policy).toMatchObject({ attachments: 'allow' })
    expect((await policies(['activate', 'internal'])).exitCode).toBe(0)
  })

  test('diff compares names and files, and exits 0 whatever it finds', async () => {
    await policies(['create', 'Compared', '-d', 'x', '--set', 'pii.enabled=true', '--set', 'deniedModels=a/a,b/b'])
    const differences = await policies(['diff', 'public', 'Compared', '-o', 'tsv'])
    expect(differences).toEqual({
      exitCode: 0,
      stdout: 'path\tfrom\tto\ndeniedModels\t\ta/a,b/b\npii.enabled\tfalse\ttrue\nserverTools.allowed\ttrue\tfalse\n',
      stderr: '',
    })
    const file = await fileWith((await policies(['show', 'compared', '-o', 'yaml'])).stdout)
    expect((await policies(['diff', 'compared', `@${file}`, '--json'])).stdout).toBe('[]\n')
    expect((await policies(['diff', 'nothing', 'public'])).exitCode).toBe(3)
  })

  test('delete removes the policy, and its absence can be ignored', async () => {
    await policies(['create', 'Short', '-d', 'x'])
    expect(await policies(['delete', 'SHORT', '-y'])).toEqual({
      exitCode: 0,
      stdout: '',
      stderr: "Deleted policy 'SHORT'.\n",
    })
    expect((await policies(['rm', 'short', '-y'])).exitCode).toBe(3)
    expect((await policies(['rm', 'short', '-y', '--ignore-not-found'])).exitCode).toBe(0)
    expect((await policies(['rm', 'public', '-y'])).exitCode).toBe(5)
  })
})

describe('before anything is sent', () => {
  let gateway: FakeGateway
  beforeEach(async () => {
    gateway = await startFakeGateway()
  })
  afterEach(() => gateway.close())

  const run = (words: string[]) =>
    runCli(['policies', ...words], { env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: KEY } })

  test.each([
    [['create', 'x', '-d', 'x', '--set', 'pii'], "--set must be FIELD=VALUE, not 'pii'"],
    [['update', 'ours', '--set', 'a.b.c=1'], "--set must be FIELD=VALUE, not 'a.b.c=1'"],
    [['update', 'ours'], 'no change of the policy was given'],
    [['create', 'x'], '--description'],
    [['diff', 'internal'], "missing required argument 'to'"],
  ])('%j is a mistake that is explained', async (words, message) => {
    const { exitCode, stdout, stderr } = await run(words)
    expect({ exitCode, stdout, stderr }).toEqual({ exitCode: 2, stdout: '', stderr: expect.stringContaining(message) })
    expect(gateway.requests).toEqual([])
  })

  test.each([
    ['policy: strict', "'policy' in the file must be an object"],
    ['polcy: {}', "Did you mean 'policy'?"],
  ])('the file %j is a mistake that is explained', async (text, message) => {
    const { exitCode, stderr } = await run(['update', 'ours', '--from-file', await fileWith(text)])
    expect({ exitCode, stderr }).toEqual({ exitCode: 2, stderr: expect.stringContaining(message) })
    expect(gateway.requests).toEqual([])
  })

  test('a name stands in the path as it is, whatever signs it has', async () => {
    await run(['show', 'R&D (EU)?#/..'])
    expect(gateway.requests.map(({ path }) => path)).toContain('/api/external/smltp-policies/r%26d%20(eu)%3F%23%2F..')
  })

  test('--dry-run of an update prints the whole document that would be sent', async () => {
    const { stdout } = await run(['update', 'ours', '--set', 'pii.action=block', '--dry-run', '-o', 'json'])
    expect(stdout).toContain('"block"')
    expect(stdout).toContain('"deniedModels"')
    expect(gateway.requests.map(({ method }) => method)).toEqual(['GET'])
  })
})

describe('settings of a document', () => {
  test.each([
    ['pii.enabled=true', true],
    ['retentionDays=7', 7],
    ['retentionDays=null', null],
    ['mode=monitor', 'monitor'],
    ['deniedModels=a/a', ['a/a']],
    ['deniedModels=a/a, b/b,', ['a/a', 'b/b']],
    ['deniedModels=', []],
    ['deniedModels=["a/a"]', ['a/a']],
    ['pii.entities=all', 'all'],
    ['pii.entities=EMAIL,PHONE', ['EMAIL', 'PHONE']],
    ['promptShield.policyId=our=own', 'our=own'],
  ])('%s is %j', (text, value) => {
    expect(toSetting(text)).toEqual({ path: text.slice(0, text.indexOf('=')), value })
  })

  test('are shown in the form of --set, without fields that are off', () => {
    const document = PolicyDocument.parse({
      deniedModels: ['a/a', 'b/b'],
      residency: { allowedRegions: ['eu'] },
      pii: { enabled: true, entities: ['EMAIL'], action: 'mask' },
      promptShield: { required: true, policyId: 'ours' },
      retentionDays: 7,
    })
    const texts = toSettingTexts(document)
    expect(texts).toEqual([
      'mode=enforce',
      'deniedModels=a/a,b/b',
      'residency.allowedRegions=eu',
      'residency.onUnknown=deny',
      'pii.enabled=true',
      'pii.entities=EMAIL',
      'pii.action=mask',
      'pii.direction=both',
      'promptShield.required=true',
      'promptShield.minSensitivity=permissive',
      'promptShield.policyId=ours',
      'promptLeak.action=flag',
      'addresses.allowed=true',
      'unreadFiles.allowed=true',
      'attachments=allow',
      'cache.mode=allowed',
      'retentionDays=7',
    ])
    expect(PolicyDocument.parse(withSettings({}, texts.map(toSetting)))).toEqual(document)
  })
})
