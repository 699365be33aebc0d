import { describe, expect, test } from 'vitest'
import { CUSTOM_POLICIES } from '../../../../src/daemon/safety/policies/changes.ts'
import { DoneResponse, StructuredError } from '../../../../src/shared/wire/common.ts'
import {
  ActivePolicyResponse,
  DiffPoliciesResponse,
  DiscoverPoliciesResponse,
  ListPoliciesResponse,
  PolicyDocument,
  PolicyResponse,
  ShowPolicyResponse,
} from '../../../../src/shared/wire/policies.ts'
import { addKey } from '../../../accounts.ts'
import { describeEachEngine } from '../../../engines.ts'
import { type Answer, sharedGateway } from '../../../harness.ts'
import { addTestTenant, type TestTenant } from '../../../tenant-admin.ts'

const BASE = '/api/external/smltp-policies'
const KEYS = '/api/admin/api-keys'
const BUILT_IN_IDS = ['public', 'internal', 'internal-strict', 'confidential', 'hipaa', 'gdpr', 'pci-dss']

describeEachEngine('policies', (engine) => {
  const shared = sharedGateway({ engine })
  const newTenant = () => addTestTenant(shared.current)

  async function create(tenant: TestTenant, name: string, given: Record<string, unknown> = {}) {
    const answer = await tenant.call('POST', BASE, { name, description: `About ${name}`, policy: {}, ...given })
    expect(answer.status, answer.text).toBe(201)
    return PolicyResponse.strict().parse(answer.body).policy
  }
  async function show(tenant: TestTenant, id: string) {
    const answer = await tenant.call('GET', `${BASE}/${encodeURIComponent(id)}`)
    expect(answer.status, answer.text).toBe(200)
    return ShowPolicyResponse.strict().parse(answer.body).policy
  }
  async function list(tenant: TestTenant) {
    const answer = await tenant.call('GET', `${BASE}/all`)
    expect(answer.status, answer.text).toBe(200)
    return ListPoliciesResponse.strict().parse(answer.body).data
  }
  async function active(tenant: TestTenant) {
    const answer = await tenant.call('GET', `${BASE}/active`)
    expect(answer.status, answer.text).toBe(200)
    return ActivePolicyResponse.strict().parse(answer.body).data
  }
  function expectRefusal(answer: Answer, status: number, code: string, words: RegExp): void {
    expect({ status: answer.status, body: answer.body }).toMatchObject({
      status,
      body: { success: false, error: { code, message: expect.stringMatching(words) } },
    })
    StructuredError.parse(answer.body)
  }

  describe('POST', () => {
    test('creates one, identified by its id from then on, with every field of its document and its hash', async () => {
      const tenant = await newTenant()
      const policy = await create(tenant, ' Health  Data ', {
        description: ' About patients ',
        policy: { deniedModels: ['test/b', 'test/a'] },
      })
      expect(policy).toEqual({
        id: 'health-data',
        name: 'Health Data',
        description: 'About patients',
        type: 'custom',
        isActive: false,
        policyHash: expect.stringMatching(/^[0-9a-f]{64}$/),
        policy: PolicyDocument.parse({ deniedModels: ['test/a', 'test/b'] }),
        createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
        updatedAt: policy.createdAt,
      })
      for (const name of ['health-data', 'Health Data', 'HEALTH-DATA', ' health   data ']) {
        expect(await show(tenant, name)).toEqual(policy)
      }
    })

    test('rejects an unknown prompt shield policy, also in a change, and accepts one by its name', async () => {
      const tenant = await newTenant()
      await tenant.call('POST', '/api/admin/prompt-shield-policies', { name: 'Our Shield', policy: {} })
      const naming = (policyId: string) => ({ promptShield: { required: true, policyId } })
      const field = 'policy.promptShield.policyId'
      const refused = { success: false, error: { code: 'VALIDATION_ERROR', details: { field, value: 'typo' } } }
      const body = { name: 'Ours', description: '', policy: naming('typo') }
      expect(await tenant.call('POST', BASE, body)).toMatchObject({ status: 400, body: refused })
      const { id } = await create(tenant, 'Ours', { policy: naming('OUR shield') })
      for (const policyId of ['strict', 'our-shield']) {
        expect((await tenant.call('PUT', `${BASE}/${id}`, { policy: naming(policyId) })).status).toBe(200)
      }
      const changed = await tenant.call('PUT', `${BASE}/${id}`, { policy: naming('typo') })
      expect(changed).toMatchObject({ status: 400, body: refused })
      expect((await show(tenant, id)).policy.promptShield.policyId).toBe('our-shield')
      const other = await newTenant()
      expect((await other.call('POST', BASE, { ...body, policy: naming('our-shield') })).status).toBe(400)
    })

    test('can activate it at once', async () => {
      const tenant = await newTenant()
      const policy = await create(tenant, 'Ours', { setAsActive: true })
      expect(policy.isActive).toBe(true)
      expect(await active(tenant)).toMatchObject({ template: 'ours', lastUpdated: policy.createdAt })
      expect((await tenant.audit()).at(-1)?.operation).toBe('create')
    })

    test.each(['ours', 'OURS', 'PCI DSS', 'internal'])('returns 409 for "%s" if one exists', async (name) => {
      const tenant = await newTenant()
      await create(tenant, 'Ours')
      const answer = await tenant.call('POST', BASE, { name, description: '', policy: {} })
      expectRefusal(answer, 409, 'POLICY_NAME_EXISTS', /Choose another name/)
      expect(answer.body.error.details).toEqual({ field: 'name', value: name })
    })

    test('returns 409 to the slower of two administrators', async () => {
      const tenant = await newTenant()
      const names = ['Our Own', 'our-own', 'OUR OWN', 'Our own']
      const answers = await Promise.all(
        names.map((name) => tenant.call('POST', BASE, { name, description: '', policy: {} })),
      )
      expect(answers.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409])
      expect((await list(tenant)).customPolicies).toHaveLength(1)
    })

    test.each([
      [{ description: '', policy: {} }, 'name'],
      [{ name: 'a/b', description: '', policy: {} }, 'name'],
      [{ name: 'all', description: '', policy: {} }, 'name'],
      [{ name: 'n', policy: {} }, 'description'],
      [{ name: 'n', description: '' }, 'policy'],
      [{ name: 'n', description: '', policy: { pii: { enabeld: true } } }, 'policy.pii'],
      [{ name: 'n', description: '', policy: { deniedModels: ['x'] } }, 'policy.deniedModels.0'],
      [{ name: 'n', description: '', policy: {}, setAsActive: 'yes' }, 'setAsActive'],
    ])('rejects %j, naming the field', async (body, field) => {
      const tenant = await newTenant()
      const answer = await tenant.call('POST', BASE, body)
      expectRefusal(answer, 400, 'VALIDATION_ERROR', /./)
      expect(answer.body.error.details.field).toBe(field)
      expect(await tenant.audit()).toEqual([])
    })

    test('rejects more than a tenant may have', async () => {
      const tenant = await newTenant()
      const times = { created_at: '2026-01-01T00:00:00.000Z', updated_at: '2026-01-01T00:00:00.000Z' }
      const rows = Array.from({ length: CUSTOM_POLICIES }, (_, at) => ({
        tenant_id: tenant.id,
        id: `p${at}`,
        name: `p${at}`,
        description: '',
        document: '{}',
        ...times,
      }))
      await tenant.db.insertInto('smltp_policies').values(rows).execute()
      const answer = await tenant.call('POST', BASE, { name: 'one more', description: '', policy: {} })
      expectRefusal(answer, 400, 'VALIDATION_ERROR', /at most 200 custom policies/)
    })
  })

  describe('GET', () => {
    test('lists the seven built-in ones and the custom ones, and marks the active one', async () => {
      const tenant = await newTenant()
      const other = await newTenant()
      await create(other, 'Theirs', { setAsActive: true })
      const ours = await create(tenant, 'Ours')
      const { builtInPolicies, customPolicies, activePolicyTemplate, summary } = await list(tenant)
      expect(builtInPolicies.map(({ id }) => id)).toEqual(BUILT_IN_IDS)
      expect(builtInPolicies.filter(({ isActive }) => isActive).map(({ id }) => id)).toEqual(['internal'])
      const { policy: _, ...row } = ours
      expect(customPolicies).toEqual([row])
      expect({ activePolicyTemplate, summary }).toEqual({
        activePolicyTemplate: 'internal',
        summary: { totalPolicies: 8, builtInCount: 7, customCount: 1 },
      })
    })

    test('shows the active one: the system default until another is activated', async () => {
      const tenant = await newTenant()
      const { created_at } = await tenant.db
        .selectFrom('tenants')
        .select('created_at')
        .where('id', '=', tenant.id)
        .executeTakeFirstOrThrow()
      const internal = await show(tenant, 'internal')
      expect(await active(tenant)).toEqual({
        template: 'internal',
        policy: internal.policy,
        policyHash: internal.policyHash,
        lastUpdated: created_at,
        gaps: [
          'personal data is only recorded',
          'secrets are only recorded',
          'attacks on prompts are blocked only for keys with a prompt shield',
          'models may run in any region',
          'text in images is not inspected',
        ],
      })
    })

    test.each(['nothing', 'a%2Fb', 'x'.repeat(300)])('returns 404 for %s', async (id) => {
      const tenant = await newTenant()
      expectRefusal(await tenant.call('GET', `${BASE}/${id}`), 404, 'POLICY_NOT_FOUND', /smltp-policies\/all/)
    })

    test('lists for a key the policies that it may request', async () => {
      const tenant = await newTenant()
      await create(tenant, 'Ours')
      const ask = async (allowedSMLTPPolicies: string[]) => {
        const { secret: key } = await addKey(tenant.db, tenant.admin, { settings: { allowedSMLTPPolicies } })
        const answer = await shared.current.call('GET', BASE, undefined, { key })
        expect(answer.status, answer.text).toBe(200)
        const { policies, restrictions } = DiscoverPoliciesResponse.strict().parse(answer.body)
        return { ids: policies.map(({ id }) => id), ...restrictions }
      }
      expect(await ask([])).toEqual({ ids: [...BUILT_IN_IDS, 'ours'], allowed_policies: 'all' })
      expect(await ask(['public', 'ours'])).toEqual({ ids: ['public', 'ours'], allowed_policies: ['public', 'ours'] })
    })
  })

  describe('PUT', () => {
    test('changes only the sent fields, the document as a whole, and never the name', async () => {
      const tenant = await newTenant()
      const before = await create(tenant, 'Ours', { policy: { deniedModels: ['test/a'], retentionDays: 7 } })
      const named = await tenant.call('PUT', `${BASE}/Ours`, { description: 'New', name: 'Other' })
      expectRefusal(named, 400, 'VALIDATION_ERROR', /^name is read-only/)
      const described = await tenant.call('PUT', `${BASE}/Ours`, { description: 'New', name: 'Ours' })
      expect(described.status, described.text).toBe(200)
      expect(PolicyResponse.strict().parse(described.body).policy).toMatchObject({
        id: 'ours',
        name: 'Ours',
        description: 'New',
        policyHash: before.policyHash,
      })
      const changed = await tenant.call('PUT', `${BASE}/ours`, { policy: { deniedModels: ['test/b'] } })
      const after = PolicyResponse.strict().parse(changed.body).policy
      expect(after.policy).toEqual(PolicyDocument.parse({ deniedModels: ['test/b'] }))
      expect(after.policyHash).not.toBe(before.policyHash)
      expect(await show(tenant, 'ours')).toEqual(after)
    })

    test('of the active one updates its time of last change', async () => {
      const tenant = await newTenant()
      await create(tenant, 'Ours', { setAsActive: true })
      const answer = await tenant.call('PUT', `${BASE}/ours`, { policy: { retentionDays: 7 } })
      const { policy } = PolicyResponse.parse(answer.body)
      expect(policy.isActive).toBe(true)
      expect(await active(tenant)).toMatchObject({ lastUpdated: policy.updatedAt, policyHash: policy.policyHash })
    })
  })

  describe('DELETE', () => {
    const remove = (tenant: TestTenant, id: string) => tenant.call('DELETE', `${BASE}/${id}`)

    test('removes an unused one', async () => {
      const tenant = await newTenant()
      await create(tenant, 'Ours')
      const answer = await remove(tenant, 'OURS')
      expect(answer.status, answer.text).toBe(200)
      DoneResponse.strict().parse(answer.body)
      expectRefusal(await remove(tenant, 'ours'), 404, 'POLICY_NOT_FOUND', /./)
      expect((await list(tenant)).customPolicies).toEqual([])
    })

    test('keeps the active one until another one is activated', async () => {
      const tenant = await newTenant()
      await create(tenant, 'Ours', { setAsActive: true })
      expectRefusal(await remove(tenant, 'ours'), 409, 'POLICY_IN_USE', /active policy of this tenant/)
      expect((await tenant.call('POST', `${BASE}/internal/activate`)).status).toBe(200)
      expect((await remove(tenant, 'ours')).status).toBe(200)
    })

    test('keeps one that keys use, and names the keys', async () => {
      const tenant = await newTenant()
      await create(tenant, 'Our Own')
      const made = []
      for (const [name, settings] of [
        ['first', { allowedSMLTPPolicies: ['public', 'our own'] }],
        ['second', { allowedSMLTPPolicies: [], defaultSMLTPPolicy: 'OUR-OWN' }],
        ['third', { allowedSMLTPPolicies: ['internal'] }],
      ] as const) {
        const answer = await tenant.call('POST', KEYS, { name, ...settings })
        expect(answer.status, answer.text).toBe(201)
        made.push(answer.body.apiKey)
      }
      expect(made[0].allowedSMLTPPolicies).toEqual(['public', 'our-own'])
      expect(made[1].defaultSMLTPPolicy).toBe('our-own')
      expectRefusal(await remove(tenant, 'our-own'), 409, 'POLICY_IN_USE', /: "first", "second"\. Remove it/)
      await tenant.call('PUT', `${KEYS}/${made[0].id}`, { allowedSMLTPPolicies: ['public'] })
      await tenant.call('DELETE', `${KEYS}/${made[1].id}`)
      expect((await remove(tenant, 'our-own')).status).toBe(200)
    })

    test('concurrent with its assignment to a key leaves no key without its policy', async () => {
      const tenant = await newTenant()
      for (let round = 0; round < 5; round++) {
        await create(tenant, 'Contested')
        const [removed, given] = await Promise.all([
          remove(tenant, 'contested'),
          tenant.call('POST', KEYS, { name: 'k', allowedSMLTPPolicies: ['contested'] }),
        ])
        expect([removed.status, given.status]).toEqual(removed.status === 200 ? [200, 400] : [409, 201])
        if (given.status !== 201) continue
        await tenant.call('DELETE', `${KEYS}/${given.body.apiKey.id}`)
        await remove(tenant, 'contested')
      }
    })
  })

  test.each(BUILT_IN_IDS)('the built-in "%s" cannot be changed or deleted', async (id) => {
    const tenant = await newTenant()
    const words = /built-in policy and cannot be changed/
    expectRefusal(
      await tenant.call('PUT', `${BASE}/${id}`, { description: 'x' }),
      403,
      'INSUFFICIENT_PERMISSIONS',
      words,
    )
    expectRefusal(await tenant.call('DELETE', `${BASE}/${id}`), 403, 'INSUFFICIENT_PERMISSIONS', words)
  })

  test('activating a built-in or custom policy affects only this tenant', async () => {
    const [tenant, other] = [await newTenant(), await newTenant()]
    await create(tenant, 'Ours')
    for (const id of ['gdpr', 'ours', 'public']) {
      const answer = await tenant.call('POST', `${BASE}/${id}/activate`)
      expect(answer.status, answer.text).toBe(200)
      expect(PolicyResponse.strict().parse(answer.body).policy).toMatchObject({ id, isActive: true })
      const { builtInPolicies, customPolicies, activePolicyTemplate } = await list(tenant)
      expect(activePolicyTemplate).toBe(id)
      expect([...builtInPolicies, ...customPolicies].filter(({ isActive }) => isActive)).toMatchObject([{ id }])
    }
    expect((await active(other)).template).toBe('internal')
    expectRefusal(await tenant.call('POST', `${BASE}/nothing/activate`), 404, 'POLICY_NOT_FOUND', /./)
  })

  describe('POST /diff', () => {
    const diff = async (tenant: TestTenant, body: unknown) => {
      const answer = await tenant.call('POST', `${BASE}/diff`, body)
      expect(answer.status, answer.text).toBe(200)
      return DiffPoliciesResponse.strict().parse(answer.body).data
    }

    test('compares any mixture of policies and documents, and stores nothing', async () => {
      const tenant = await newTenant()
      const policy = {
        ...{ pii: { enabled: true }, dlp: { enabled: true } },
        ...{ urls: { unknownHosts: 'log' }, serverTools: { allowed: true } },
      }
      const ours = await create(tenant, 'Ours', { policy })
      const entries = await tenant.audit()
      expect(await diff(tenant, { from: 'Internal', to: 'ours' })).toEqual({
        from: { id: 'internal', policyHash: ours.policyHash },
        to: { id: 'ours', policyHash: ours.policyHash },
        equal: true,
        differences: [],
      })
      expect(
        await diff(tenant, { from: 'ours', to: { ...policy, dlp: {}, pii: { enabled: true, action: 'block' } } }),
      ).toEqual({
        from: { id: 'ours', policyHash: ours.policyHash },
        to: { id: null, policyHash: expect.stringMatching(/^[0-9a-f]{64}$/) },
        equal: false,
        differences: [
          { path: 'pii.action', from: 'log', to: 'block' },
          { path: 'dlp.enabled', from: true, to: false },
        ],
      })
      expect(await tenant.audit()).toEqual(entries)
      expect((await list(tenant)).summary.customCount).toBe(1)
    })

    test('names errors in a document and unknown policies', async () => {
      const tenant = await newTenant()
      const wrong = await tenant.call('POST', `${BASE}/diff`, { from: 'public', to: { pii: { actoin: 'log' } } })
      expectRefusal(wrong, 400, 'VALIDATION_ERROR', / in to\.pii; did you mean "action"/)
      const unknown = await tenant.call('POST', `${BASE}/diff`, { from: 'public', to: 'nothing' })
      expectRefusal(unknown, 404, 'POLICY_NOT_FOUND', /./)
    })
  })

  test('every change is recorded with the new content of the policy', async () => {
    const tenant = await newTenant()
    const { policyHash } = await create(tenant, 'Ours', { setAsActive: true })
    await tenant.call('PUT', `${BASE}/ours`, { description: 'New' })
    await tenant.call('POST', `${BASE}/public/activate`)
    await tenant.call('DELETE', `${BASE}/ours`)
    const common = { type: 'smltp_policy_management', resource_type: 'smltp_policy' }
    const entries = await tenant.audit()
    expect(entries).toMatchObject([
      { ...common, operation: 'create', resource_id: 'ours', description: 'External API: created policy "Ours"' },
      { ...common, operation: 'update', resource_id: 'ours' },
      { ...common, operation: 'activate', resource_id: 'public' },
      { ...common, operation: 'delete', resource_id: 'ours' },
    ])
    expect(entries.map(({ metadata }) => metadata)).toMatchObject([
      { policyId: 'ours', policyName: 'Ours', policyHash, setAsActive: true, document: { version: 1 } },
      { policyId: 'ours', policyHash, description: 'New' },
      { policyId: 'public', policyName: 'Public', before: 'ours' },
      { policyId: 'ours', policyHash },
    ])
  })
})
