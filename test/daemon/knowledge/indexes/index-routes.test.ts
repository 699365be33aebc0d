import { expect, test } from 'vitest'
import { purgeDeletedIndexes } from '../../../../src/daemon/knowledge/indexes/index-removal.ts'
import { PERSONAL_INDEXES } from '../../../../src/shared/spec-limits.ts'
import { ListIndexesResponse, ShowIndexResponse, UpdateIndexResponse } from '../../../../src/shared/wire/indexes.ts'
import { addUser } from '../../../accounts.ts'
import { describeEachEngine } from '../../../engines.ts'
import { sharedGateway } from '../../../harness.ts'
import { MULTIPART, multipart } from '../ingest/multipart.ts'

const BASE = '/api/external/indexes'

describeEachEngine('indexes as administrators keep them', (engine) => {
  const shared = sharedGateway({ engine })
  const call: (typeof shared.current)['call'] = (...args) => shared.current.call(...args)
  const created = async (name: string, more: object = {}) =>
    (await call('POST', BASE, { name, ...more })).body.index as { id: string; name: string }
  const shown = async (id: string) => ShowIndexResponse.parse((await call('GET', `${BASE}/${id}`)).body).index
  const put = (id: string, body: object) => call('PUT', `${BASE}/${id}`, body)
  const train = (name: string, content: string) =>
    call('POST', `${BASE}/${name}/train`, multipart([{ fileName: 'a.txt', content }]), { headers: MULTIPART })
  const names = async (query: string) =>
    ListIndexesResponse.parse((await call('GET', `${BASE}/all?${query}`)).body).indexes.map(({ name }) => name)

  const tenantId = async () =>
    (await shared.current.app.db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()).id
  const newUser = async (more: object = {}) => addUser(shared.current.app.db, { tenant_id: await tenantId(), ...more })
  const newGroup = async (status = 'Active') =>
    (await call('POST', '/api/external/groups', { name: `group-${++count}`, description: '', status })).body.group
  let count = 0

  test('an index is shown with its readers, and has one owner at a time', async () => {
    const user = await newUser()
    const group = await newGroup()
    const { id } = await created('owned', { assignedUser: user.id })
    expect(await shown(id)).toMatchObject({
      name: 'owned',
      type: 'personal',
      namespace: `user-${user.id}-index-owned`,
      assignedUser: { id: user.id, name: user.name, email: user.email },
      assignedGroup: null,
    })
    const given = UpdateIndexResponse.parse((await put(id, { assignedGroup: group.id })).body).index
    expect(given).toMatchObject({
      type: 'group',
      namespace: 'owned',
      assignedUser: null,
      assignedGroup: { id: group.id, name: group.name },
    })
    expect((await put(id, { assignedGroup: null })).body.index).toMatchObject({ type: 'general', assignedGroup: null })
  })

  test('an update changes only its fields', async () => {
    const user = await newUser()
    const { id } = await created('before', { description: 'About it', assignedUser: user.id })
    const before = await shown(id)
    expect((await put(id, { name: ' After That ' })).status).toBe(200)
    const after = await shown(id)
    expect(after).toEqual({
      ...before,
      name: 'after-that',
      sharedIndexName: 'after-that',
      namespace: `user-${user.id}-index-after-that`,
      updatedAt: after.updatedAt,
    })
    expect((await put(id, { description: '' })).body.index).toMatchObject({ name: 'after-that', description: '' })
  })

  test('a duplicate or invalid name changes nothing', async () => {
    await created('taken')
    const { id } = await created('free')
    const taken = await put(id, { name: 'TAKEN', description: 'New' })
    expect([taken.status, taken.body.error.code]).toEqual([409, 'INDEX_NAME_EXISTS'])
    const none = await put(id, { name: '!', description: 'New' })
    expect([none.status, none.body.error]).toEqual([400, 'Invalid index name'])
    expect(await shown(id)).toMatchObject({ name: 'free', description: '' })
  })

  test('unknown and inactive users cannot own an index', async () => {
    const inactive = await newUser({ status: 0 })
    const archived = await newGroup('Inactive')
    const { id } = await created('waiting')
    for (const request of [
      (body: object) => put(id, body),
      (body: object) => call('POST', BASE, { name: 'new-one', ...body }),
    ]) {
      for (const assignedUser of ['f'.repeat(24), inactive.id]) {
        const refused = await request({ assignedUser })
        expect([refused.status, refused.body.error.details?.field]).toEqual([400, 'assignedUser'])
      }
      for (const assignedGroup of ['f'.repeat(24), archived.id]) {
        const refused = await request({ assignedGroup })
        expect([refused.status, refused.body.error]).toEqual([400, 'Invalid or inactive group'])
      }
    }
    expect(await shown(id)).toMatchObject({ type: 'general' })
    expect(await names('search=new-one')).toEqual([])
  })

  test('a user gets as many as the licence allows, including assigned ones', async () => {
    const user = await newUser({ license: 'Essential' })
    for (let has = 0; has < PERSONAL_INDEXES.Essential; has++) await created(`mine-${has}`, { assignedUser: user.id })
    const refused = await call('POST', BASE, { name: 'one-more', assignedUser: user.id })
    expect([refused.status, refused.body.error]).toEqual([403, 'Index quota exceeded'])
    expect(refused.body.message).toContain('2 of the 2')
    const { id } = await created('one-more')
    expect((await put(id, { assignedUser: user.id })).status).toBe(403)
    const mine = await names('search=mine-0&type=personal')
    expect(mine).toEqual(['mine-0'])
    const [first] = (await call('GET', `${BASE}/all?search=mine-0`)).body.indexes
    // Existing access does not block a change.
    expect((await put(first.id, { assignedUser: user.id, name: 'mine-still' })).status).toBe(200)
    expect((await call('DELETE', `${BASE}/${first.id}`)).status).toBe(200)
    expect((await put(id, { assignedUser: user.id })).status).toBe(200)
  })

  test.each([
    [{ region: 'us-east-1' }, 201],
    [{ region: 'us-east-1', cloud: 'aws' }, 201],
    [{ region: 'eu-west-1' }, 403],
    [{ cloud: 'gcp' }, 403],
    [{ region: 'us-east-1', cloud: 'gcp' }, 403],
  ])('under the licence Essential %j returns %i, under others 201', async (place, status) => {
    const make = async (license: string) => {
      const user = await newUser({ license })
      return call('POST', BASE, { name: `placed-${++count}`, assignedUser: user.id, ...place })
    }
    const answer = await make('Essential')
    expect(answer.status).toBe(status)
    if (status === 403) {
      expect(answer.body).toMatchObject({ success: false, error: 'Region not allowed for license' })
      expect(answer.body.message).toContain('aws/us-east-1')
      expect(await names(`search=placed-${count}`)).toEqual([])
    }
    for (const license of ['Growth', 'Ultra', 'Early Access']) expect((await make(license)).status).toBe(201)
  })

  test.each([{ cloud: 'azure' }, { region: 7 }])('%j is an invalid page', async (place) => {
    const refused = await call('POST', BASE, { name: 'no-place', ...place })
    expect([refused.status, refused.body.error.code]).toEqual([400, 'VALIDATION_ERROR'])
  })

  test('an index whose owner was deleted has no owner and is not public', async () => {
    const user = await newUser()
    const group = await newGroup()
    const personal = await created('of-a-leaver', { assignedUser: user.id })
    const shared = await created('of-a-gone-group', { assignedGroup: group.id })
    expect((await call('DELETE', `/api/external/users/${user.id}`)).status).toBe(200)
    expect((await call('DELETE', `/api/external/groups/${group.id}`)).status).toBe(200)
    for (const { id, name } of [personal, shared]) {
      expect(await shown(id)).toMatchObject({ type: 'unknown', assignedUser: null, assignedGroup: null })
      expect((await call('GET', `${BASE}/${name}/search?query=x`)).status).toBe(404)
    }
    expect((await put(personal.id, { assignedUser: null })).body.index).toMatchObject({ type: 'general' })
  })

  test('a list is filtered by type, and sorted as requested', async () => {
    const user = await newUser({ license: 'Ultra' })
    await created('sort-b', { assignedUser: user.id })
    await created('sort-a')
    await created('sort-c', { assignedGroup: (await newGroup()).id })
    expect(await names('search=sort-&sortBy=name&sortOrder=asc')).toEqual(['sort-a', 'sort-b', 'sort-c'])
    expect(await names('search=sort-')).toEqual(['sort-c', 'sort-a', 'sort-b'])
    expect(await names('search=sort-&type=personal')).toEqual(['sort-b'])
    expect(await names('search=sort-&type=group')).toEqual(['sort-c'])
    expect(await names('search=sort-&type=general')).toEqual(['sort-a'])
  })

  test('a deleted index disappears for every caller at once, its name is free, and its documents follow', async () => {
    const { db } = shared.current.app
    const { id } = await created('short-lived')
    await train('short-lived', 'Zebras have stripes.')
    expect((await call('DELETE', `${BASE}/${id}`)).status).toBe(200)
    expect((await call('DELETE', `${BASE}/${id}`)).status).toBe(404)
    expect((await put(id, { name: 'other' })).status).toBe(404)
    expect((await call('GET', `${BASE}/short-lived/search?query=zebras`)).status).toBe(404)
    expect((await call('GET', `${BASE}/~${id}/search?query=zebras`)).status).toBe(404)
    expect(await names('search=short-lived')).toEqual([])
    expect(await names('search=short-lived&status=deleted')).toEqual(['short-lived'])
    expect(await shown(id)).toMatchObject({ name: 'short-lived', isActive: false, deletedAt: expect.any(String) })

    const again = await created('short-lived')
    await train('short-lived', 'Leopards have spots.')
    expect((await call('GET', `${BASE}/short-lived/search?query=zebras`)).body.results.total).toBe(0)
    expect(await names('search=short-lived&status=all')).toEqual(['short-lived', 'short-lived'])

    await purgeDeletedIndexes(db)
    for (const table of ['documents', 'passages', 'segments'] as const) {
      const left = await db.selectFrom(table).select('index_id').where('index_id', 'in', [id, again.id]).execute()
      expect([table, new Set(left.map(({ index_id }) => index_id))]).toEqual([table, new Set([again.id])])
    }
    expect((await call('GET', `${BASE}/short-lived/search?query=leopards`)).body.results.total).toBe(1)
  })

  test('an index of many passages is emptied completely', async () => {
    const { db } = shared.current.app
    const { id } = await created('large')
    await train('large', Array.from({ length: 450 }, (_, at) => `Part ${at}. ${'words '.repeat(180)}`).join('\n\n'))
    await call('DELETE', `${BASE}/${id}`)
    await purgeDeletedIndexes(db)
    for (const table of ['documents', 'passages', 'segments'] as const) {
      expect(await db.selectFrom(table).selectAll().where('index_id', '=', id).execute()).toEqual([])
    }
    const orphans = await db
      .selectFrom('postings')
      .select('page')
      .where('segment_id', 'not in', db.selectFrom('segments').select('id'))
      .execute()
    expect(orphans).toEqual([])
  })

  test.each(['f'.repeat(24), 'no-id', '%F0%9F%90%BC'])('unknown index: %s', async (id) => {
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const answer = await call(method, `${BASE}/${id}`, method === 'PUT' ? {} : undefined)
      expect([answer.status, answer.body.error.code]).toEqual([404, 'INDEX_NOT_FOUND'])
    }
  })
})
