import { beforeAll, expect, test } from 'vitest'
import type { Tables } from '../../../../src/daemon/platform/db/tables.ts'
import type { Permission } from '../../../../src/shared/permissions.ts'
import { addKey, addRole, addUser } from '../../../accounts.ts'
import { describeEachEngine } from '../../../engines.ts'
import { sharedGateway } from '../../../harness.ts'
import { MULTIPART, multipart } from '../ingest/multipart.ts'

const BASE = '/api/external/indexes'
const KEYS = '/api/admin/api-keys'
const NAMES = ['general', 'of-ada', 'of-grace', 'of-team'] as const
type Name = (typeof NAMES)[number]

/** The write access of each caller to existing indexes; unreadable ones return 404. */
const CALLERS: Record<string, { reads: Name[]; writes: Name[] }> = {
  'a key of Ada': { reads: ['general', 'of-ada', 'of-team'], writes: ['of-ada'] },
  'a key of Ada that may write': { reads: ['general', 'of-ada', 'of-team'], writes: ['general', 'of-ada', 'of-team'] },
  'a key of Ada that may write, for one index': { reads: ['of-team'], writes: ['of-team'] },
  'a key of Grace': { reads: ['general', 'of-grace'], writes: ['of-grace'] },
  'a globalReader': { reads: ['general'], writes: [] },
  'a reader of index-management': { reads: ['general'], writes: [] },
  'an administrator of groups, in the team': { reads: ['general', 'of-team'], writes: ['of-team'] },
  'an administrator of groups, in no team': { reads: ['general'], writes: [] },
  'an administrator of index-management': { reads: ['general'], writes: ['general'] },
  'the administrator who made the indexes': { reads: ['general'], writes: ['general'] },
  'that administrator, with a key for applications': { reads: ['general'], writes: [] },
}

describeEachEngine('who may write an index', (engine) => {
  const shared = sharedGateway({ engine })
  const keys = new Map<string, string>()
  const ids = new Map<Name, string>()
  let owners: Record<Name, Pick<Tables['indexes'], 'assigned_user_id' | 'assigned_group_id'>>

  beforeAll(async () => {
    const { app, call } = shared.current
    const { db } = app
    const { id: tenant_id } = await db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
    const ada = await addUser(db, { tenant_id })
    const grace = await addUser(db, { tenant_id })
    const admin = await addUser(db, { tenant_id, role: 'admin' })
    const withPermission = async (permission: Permission) => {
      const user = await addUser(db, { tenant_id })
      const role = await addRole(db, { tenant_id, permissions: [permission] })
      await db.insertInto('user_roles').values({ tenant_id, user_id: user.id, role_id: role.id }).execute()
      return user
    }
    const keyOf = async (name: string, user: Tables['users'], settings = {}) =>
      keys.set(name, (await addKey(db, user, { settings })).secret)
    const writing = { indexAccess: 'write' } as const
    await keyOf('a key of Ada', ada)
    await keyOf('a key of Ada that may write', ada, writing)
    await keyOf('a key of Ada that may write, for one index', ada, { ...writing, allowedIndexes: ['of-team'] })
    await keyOf('a key of Grace', grace)
    await keyOf('a globalReader', await addUser(db, { tenant_id, role: 'globalReader' }))
    await keyOf('a reader of index-management', await withPermission({ section: 'index-management', level: 'reader' }))
    await keyOf(
      'an administrator of index-management',
      await withPermission({ section: 'index-management', level: 'admin' }),
    )
    const ofGroups = { section: 'group-management', level: 'admin' } as const
    const leader = await withPermission(ofGroups)
    await keyOf('an administrator of groups, in the team', leader)
    await keyOf('an administrator of groups, in no team', await withPermission(ofGroups))
    await keyOf('the administrator who made the indexes', admin)
    await keyOf('that administrator, with a key for applications', admin, { adminAccess: false })

    const team = await call('POST', '/api/external/groups', {
      name: 'team',
      description: '',
      users: [ada.id, leader.id],
    })
    owners = {
      general: { assigned_user_id: null, assigned_group_id: null },
      'of-ada': { assigned_user_id: ada.id, assigned_group_id: null },
      'of-grace': { assigned_user_id: grace.id, assigned_group_id: null },
      'of-team': { assigned_user_id: null, assigned_group_id: team.body.group.id },
    }
    const key = keys.get('the administrator who made the indexes') ?? ''
    for (const name of NAMES) {
      const made = await call('POST', BASE, { name }, { key })
      ids.set(name, made.body.index.id)
    }
  })

  const train = (name: string, fileName: string, content: string, key: string) =>
    shared.current.call('POST', `${BASE}/${name}/train`, multipart([{ fileName, content }]), {
      headers: MULTIPART,
      key,
    })

  /** All rows of indexes in the store. */
  async function holdings() {
    const { db } = shared.current.app
    const documents = await db.selectFrom('documents').selectAll().orderBy('id').execute()
    const passages = await db.selectFrom('passages').selectAll().orderBy('id').execute()
    return { documents, passages }
  }

  /** Creates an index with one document, `notes.md`, and returns its id. */
  async function fill(name: Name): Promise<string> {
    const { app, call } = shared.current
    const assign = (owner: Name) => app.db.updateTable('indexes').set(owners[owner]).where('name', '=', name).execute()
    await assign('general')
    for (const { id } of (await call('GET', `${BASE}/${name}/documents`)).body.documents) {
      expect((await call('DELETE', `${BASE}/${name}/documents/${id}`)).status).toBe(200)
    }
    const filled = await train(name, 'notes.md', 'Otters hold hands.', shared.current.adminKey)
    expect(filled.status, filled.text).toBe(200)
    const [document] = (await call('GET', `${BASE}/${name}/documents`)).body.documents
    await assign(name)
    return document.id
  }

  for (const [who, { reads, writes }] of Object.entries(CALLERS)) {
    test(`${who}: adds, replaces and deletes documents only in writable indexes`, async () => {
      const { call } = shared.current
      const key = keys.get(who) ?? ''
      for (const name of NAMES) {
        const document = await fill(name)
        const before = await holdings()
        const answers = [
          await train(name, 'more.md', 'Otters dive.', key),
          await train(name, 'notes.md', 'Otters bite.', key),
          // The same bytes as stored.
          await train(name, 'notes.md', writes.includes(name) ? 'Otters bite.' : 'Otters hold hands.', key),
        ]
        if (writes.includes(name)) {
          const { documents } = (await call('GET', `${BASE}/${name}/documents`, undefined, { key })).body
          expect(documents.map((one: { name: string }) => one.name).sort()).toEqual(['more.md', 'notes.md'])
          answers.push(await call('DELETE', `${BASE}/${name}/documents/${documents[0].id}`, undefined, { key }))
        } else {
          answers.push(await call('DELETE', `${BASE}/${name}/documents/${document}`, undefined, { key }))
          expect(await holdings()).toEqual(before)
        }
        const isListed = reads.includes(name) || !who.includes('for one index')
        const refused = reads.includes(name) || !isListed ? 403 : 404
        const expected = writes.includes(name) ? 200 : refused
        expect([name, ...answers.map(({ status }) => status)]).toEqual([name, ...answers.map(() => expected)])
        if (expected === 403 && isListed) {
          for (const { body } of answers) {
            expect(body.error).toBe('Access denied')
            expect(body.message).toBe(
              `This key may only read the index "${name}". To change its documents, use a key with "indexAccess": "write", ` +
                `${name === 'of-team' ? 'a key with "group-management" at level "admin"' : 'a key of the owner of the index'}, ` +
                'or one with "index-management" at level "admin".',
            )
          }
        }
        if (!reads.includes(name)) continue
        const search = await call('GET', `${BASE}/${name}/search?query=otters`, undefined, { key })
        expect([search.status, search.body.results.total]).toEqual([200, 1])
      }
    })
  }

  test('an index with indexAccess "read" is changed only by its owner and by administrators', async () => {
    const { call } = shared.current
    const writer = 'a key of Ada that may write'
    const allowed: Record<string, Name[]> = {
      [writer]: ['of-ada'],
      'an administrator of groups, in the team': ['of-team'],
      'an administrator of index-management': ['general'],
    }
    for (const name of ['general', 'of-ada', 'of-team'] as const) {
      await fill(name)
      const path = `${BASE}/${ids.get(name)}`
      const closed = await call('PUT', path, { indexAccess: 'read' })
      expect([closed.status, closed.body.index.indexAccess]).toEqual([200, 'read'])
      for (const [who, writes] of Object.entries(allowed)) {
        if (!CALLERS[who]?.reads.includes(name)) continue
        const answer = await train(name, 'notes.md', `Otters bite ${who}.`, keys.get(who) ?? '')
        expect([name, who, answer.status]).toEqual([name, who, writes.includes(name) ? 200 : 403])
      }
      expect((await train(name, 'notes.md', 'Otters dig.', keys.get(writer) ?? '')).body).toEqual(
        name === 'of-ada'
          ? expect.objectContaining({ success: true })
          : expect.objectContaining({
              error: 'Access denied',
              message: expect.stringContaining(`The index "${name}" is read-only for its readers`),
            }),
      )
      // A change of the assignment or the name keeps the setting.
      expect((await call('PUT', path, { description: 'closed' })).body.index.indexAccess).toBe('read')
      expect((await call('PUT', path, { indexAccess: 'write' })).body.index.indexAccess).toBe('write')
      expect((await train(name, 'notes.md', 'Otters dig.', keys.get(writer) ?? '')).status).toBe(200)
    }
  })

  test('an index may be read-only from the start', async () => {
    const { app, call } = shared.current
    const made = await call('POST', BASE, { name: 'closed-one', indexAccess: 'read' })
    expect([made.status, made.body.index.indexAccess]).toEqual([201, 'read'])
    const key = keys.get('a key of Ada that may write') ?? ''
    expect((await train('closed-one', 'notes.md', 'Otters dive.', key)).status).toBe(403)
    const { id } = made.body.index
    await app.db.updateTable('indexes').set({ index_access: 'write' }).where('id', '=', id).execute()
    expect((await train('closed-one', 'notes.md', 'Otters dive.', key)).status).toBe(200)
    const wrong = await call('PUT', `${BASE}/${id}`, { indexAccess: 'admin' })
    expect([wrong.status, wrong.body.error.message]).toEqual([
      400,
      'indexAccess: indexAccess must be one of read, write.',
    ])
    await call('DELETE', `${BASE}/${id}`)
  })

  test('readers of an index cannot rename, assign, rebuild or delete it', async () => {
    const { call } = shared.current
    for (const who of ['a key of Ada', 'a key of Ada that may write', 'a reader of index-management']) {
      const options = { key: keys.get(who) ?? '' }
      for (const name of NAMES) {
        const path = `${BASE}/${ids.get(name)}`
        const answers = [
          await call('PUT', path, { name: 'mine' }, options),
          await call('POST', `${path}/rebuild`, undefined, options),
          await call('DELETE', path, undefined, options),
        ]
        expect(answers.map(({ status }) => status)).toEqual([403, 403, 403])
      }
    }
  })

  test('the right is checked again when a document becomes visible', async () => {
    const { app, call } = shared.current
    await fill('general')
    const { id: tenant_id } = await app.db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
    const { row, secret } = await addKey(app.db, await addUser(app.db, { tenant_id }), {
      settings: { indexAccess: 'write' },
    })
    const before = await holdings()
    // The key is cached with the write right, but has lost it in the store.
    expect((await call('GET', BASE, undefined, { key: secret })).status).toBe(200)
    await app.db.updateTable('api_keys').set({ settings: '{}' }).where('id', '=', row.id).execute()
    const [document] = (await call('GET', `${BASE}/general/documents`)).body.documents
    const answers = [
      await train('general', 'notes.md', 'Otters bite.', secret),
      await call('DELETE', `${BASE}/general/documents/${document.id}`, undefined, { key: secret }),
    ]
    expect(answers.map(({ status }) => status)).toEqual([403, 403])
    expect(await holdings()).toEqual(before)
  })

  test('a key is read-only by default, and a change applies at once', async () => {
    const { call } = shared.current
    await fill('general')
    const made = (await call('POST', KEYS, { name: 'chat', adminAccess: false })).body
    expect(made.apiKey.indexAccess).toBe('read')
    const status = async () => (await train('general', 'more.md', `Otters dive.`, made.secret)).status
    expect(await status()).toBe(403)
    const changed = await call('PUT', `${KEYS}/${made.apiKey.id}`, { indexAccess: 'write' })
    expect(changed.body.apiKey.indexAccess).toBe('write')
    expect(await status()).toBe(200)
    expect((await call('PUT', `${KEYS}/${made.apiKey.id}`, { indexAccess: 'read' })).status).toBe(200)
    expect(await status()).toBe(403)
    const wrong = await call('PUT', `${KEYS}/${made.apiKey.id}`, { indexAccess: 'admin' })
    expect([wrong.status, wrong.body.error.message]).toEqual([
      400,
      'indexAccess: indexAccess must be one of read, write.',
    ])
  })
})
