import { beforeAll, expect, test } from 'vitest'
import { addKey, addUser } from '../../../accounts.ts'
import { describeEachEngine } from '../../../engines.ts'
import { type Answer, sharedGateway } from '../../../harness.ts'
import { MULTIPART, multipart } from '../ingest/multipart.ts'

const BASE = '/api/external/indexes'

/** Every index contains a unique word, in its text and in the title of its name. */
const INDEXES = {
  general: 'zorilla',
  'of-ada': 'quokka',
  'of-grace': 'numbat',
  'of-team': 'tarsier',
  'of-archive': 'okapi',
} as const
type Name = keyof typeof INDEXES
const NAMES = Object.keys(INDEXES) as Name[]

/** The readers of each index. The administrator manages all of them, but has no additional read access. */
const READERS: Record<string, { user: 'ada' | 'grace' | 'admin'; allowed: string[]; reads: Name[] }> = {
  'the owner': { user: 'ada', allowed: [], reads: ['general', 'of-ada', 'of-team'] },
  'a user in no group': { user: 'grace', allowed: [], reads: ['general', 'of-grace'] },
  'an administrator': { user: 'admin', allowed: [], reads: ['general'] },
  'a key for one index': { user: 'ada', allowed: ['of-ada'], reads: ['of-ada'] },
  'a key for indexes of others': { user: 'ada', allowed: ['of-grace', 'of-archive', 'nowhere'], reads: [] },
}

describeEachEngine('who may read an index', (engine) => {
  const shared = sharedGateway({ engine })
  const keys = new Map<string, string>()
  const documents = new Map<Name, string>()
  const ids = new Map<Name, string>()

  beforeAll(async () => {
    const gateway = shared.current
    const { db } = gateway.app
    const tenant = await db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
    const users = {
      ada: await addUser(db, { tenant_id: tenant.id }),
      grace: await addUser(db, { tenant_id: tenant.id }),
      admin: await addUser(db, { tenant_id: tenant.id, role: 'admin' }),
    }
    const group = async (name: string) =>
      (await gateway.call('POST', '/api/external/groups', { name, description: '', users: [users.ada.id] })).body.group
        .id
    const [team, archive] = [await group('team'), await group('archive')]
    const owners: Record<Name, object> = {
      general: {},
      'of-ada': { assignedUser: users.ada.id },
      'of-grace': { assignedUser: users.grace.id },
      'of-team': { assignedGroup: team },
      'of-archive': { assignedGroup: archive },
    }
    // Filled while every user may read them, and restricted afterwards; the order is irrelevant.
    for (const [name, word] of Object.entries(INDEXES) as [Name, string][]) {
      const { id } = (await gateway.call('POST', BASE, { name, description: `Holds the ${word}` })).body.index
      const body = multipart([{ fileName: `${word}.md`, content: `# The ${word}\n\nThe ${word} is a common animal.` }])
      expect((await gateway.call('POST', `${BASE}/${name}/train`, body, { headers: MULTIPART })).status).toBe(200)
      const [document] = (await gateway.call('GET', `${BASE}/${name}/documents`)).body.documents
      documents.set(name, document.id)
      ids.set(name, id)
      expect((await gateway.call('PUT', `${BASE}/${id}`, owners[name])).status).toBe(200)
    }
    await gateway.call('PUT', `/api/external/groups/${archive}`, { status: 'Inactive' })
    for (const [who, { user, allowed }] of Object.entries(READERS)) {
      keys.set(who, (await addKey(db, users[user], { settings: { allowedIndexes: allowed } })).secret)
    }
  })

  /** All ways to read the content of an index, tried with an index of this name. */
  async function askAll(name: string, documentId: string, key: string): Promise<Record<string, Answer>> {
    const { call, chat } = shared.current
    const options = { key }
    const body = multipart([{ fileName: 'new.md', content: 'Something new.' }])
    const prompt = 'Which animal is common?'
    const question = { index: name, model: 'local/extract', prompt }
    const messages = [{ role: 'user', content: prompt }]
    const chats = '/api/external/chat/completions'
    const search = (query: string) => call('GET', `${BASE}/${name}/search?${query}`, undefined, options)
    const list = (query: string) => call('GET', `${BASE}/${name}/documents${query}`, undefined, options)
    return {
      chat: await chat(question, options),
      'chat in turns': await chat({ ...question, prompt: undefined, messages }, options),
      'chat without retrieval': await chat({ ...question, use_rag: false }, options),
      'chat with a chain': await chat({ ...question, model: undefined, models: [{ model: 'local/extract' }] }, options),
      stream: await call('POST', chats, { ...question, stream: true }, options),
      'stream with a key for repeats': await call(
        'POST',
        chats,
        { ...question, stream: true },
        { ...options, headers: { 'idempotency-key': `${name}-1` } },
      ),
      search: await search('query=common+animal'),
      'search for what is there': await search(`query=${INDEXES[name as Name] ?? 'nothing'}&top_k=50&min_score=0`),
      'search without words': await search('query=%3F'),
      'search wrongly': await search('top_k=1000'),
      documents: await list(''),
      'search documents': await list('?search=md&limit=1'),
      'delete a document': await call('DELETE', `${BASE}/${name}/documents/${documentId}`, undefined, options),
      train: await call('POST', `${BASE}/${name}/train`, body, { ...options, headers: MULTIPART }),
      'train nothing': await call('POST', `${BASE}/${name}/train`, multipart([]), { ...options, headers: MULTIPART }),
    }
  }

  /** Surfaces without index support, tried with an index in every place that a caller may use. */
  async function askElsewhere(name: string, key: string): Promise<Record<string, Answer>> {
    const { call } = shared.current
    const messages = [{ role: 'user', content: 'Which animal is common?' }]
    const asked = { model: 'local/extract', messages, max_tokens: 200 }
    const places = [
      { index: name },
      { index: name, use_rag: true },
      { metadata: { index: name, user_id: name } },
      { extra_body: { index: name } },
    ]
    const answers: Record<string, Answer> = {}
    for (const path of ['/v1/chat/completions', '/api/external/v1/chat/completions', '/v1/messages']) {
      for (const [at, place] of places.entries()) {
        for (const stream of [false, true]) {
          answers[`${path} ${at} ${stream}`] = await call('POST', path, { ...asked, ...place, stream }, { key })
        }
      }
    }
    return answers
  }

  test.each(Object.keys(READERS))('%s: discovery lists exactly the readable indexes', async (who) => {
    const reads = READERS[who]?.reads ?? []
    const answer = await shared.current.call('GET', BASE, undefined, { key: keys.get(who) ?? '' })
    expect(answer.body.indexes.map(({ id }: { id: string }) => id)).toEqual(['Zero-Knowledge', ...[...reads].sort()])
    expectNoTrace({ discovery: answer }, reads)
    const listed = JSON.stringify(answer.body.indexes)
    for (const name of NAMES) expect(listed.includes(`"${name}"`)).toBe(reads.includes(name))
  })

  test.each(Object.keys(READERS))('%s: surfaces without knowledge bases ignore any named index', async (who) => {
    const key = keys.get(who) ?? ''
    const missing = await askElsewhere('no-such-index', key)
    for (const name of NAMES) {
      const answers = await askElsewhere(name, key)
      expect(Object.entries(answers).map(([way, { status }]) => [way, status])).toEqual(
        Object.entries(missing).map(([way, { status }]) => [way, status]),
      )
      expectNoTrace(answers, [])
    }
  })

  test.each(Object.keys(READERS).filter((who) => READERS[who]?.user !== 'admin'))(
    '%s: administrator actions are rejected alike for existing and missing indexes',
    async (who) => {
      const { call } = shared.current
      const options = { key: keys.get(who) ?? '' }
      const manage = async (id: string) => ({
        show: await call('GET', `${BASE}/${id}`, undefined, options),
        update: await call('PUT', `${BASE}/${id}`, { description: 'Mine' }, options),
        delete: await call('DELETE', `${BASE}/${id}`, undefined, options),
        rebuild: await call('POST', `${BASE}/${id}/rebuild`, undefined, options),
        list: await call('GET', `${BASE}/all?search=of-`, undefined, options),
      })
      const missing = await manage('f'.repeat(24))
      for (const name of NAMES) {
        const id = ids.get(name) ?? ''
        const answers = await manage(id)
        for (const [way, answer] of Object.entries(answers)) {
          expect([way, gist(answer, id)]).toEqual([way, gist(missing[way as keyof typeof missing], 'f'.repeat(24))])
          expect(answer.status).toBe(403)
        }
        expectNoTrace(answers, [])
      }
    },
  )

  test.each(Object.keys(READERS))('%s: an unreadable index looks missing on every route', async (who) => {
    const { reads = [], allowed = [] } = READERS[who] ?? {}
    const key = keys.get(who) ?? ''
    for (const name of NAMES.filter((one) => !reads.includes(one))) {
      // A key with a list gets an error about the list only; so does one that requests a missing index.
      const nothing = allowed.length > 0 && allowed.includes(name) ? 'nowhere' : 'no-such-index'
      const hidden = await askAll(name, documents.get(name) ?? '', key)
      const missing = await askAll(nothing, 'f'.repeat(24), key)
      for (const [way, answer] of Object.entries(hidden)) {
        expect([way, gist(answer, name)]).toEqual([way, gist(missing[way] as Answer, nothing)])
        // Parameters are validated before the index is looked up.
        expect(way === 'search wrongly' ? [400] : [403, 404]).toContain(answer.status)
      }
      expectNoTrace(hidden, reads)
    }
  })

  test.each(Object.keys(READERS))('%s: a readable index answers only from its own content', async (who) => {
    const { reads = [] } = READERS[who] ?? {}
    for (const name of reads) {
      const { call, chat } = shared.current
      const key = keys.get(who) ?? ''
      const answers = {
        chat: await chat({ index: name, model: 'local/extract', prompt: 'Which animal is common?' }, { key }),
        search: await call('GET', `${BASE}/${name}/search?query=common+animal`, undefined, { key }),
        documents: await call('GET', `${BASE}/${name}/documents`, undefined, { key }),
      }
      for (const answer of Object.values(answers)) {
        expect(answer.status).toBe(200)
        expect(answer.text).toContain(INDEXES[name])
      }
      expectNoTrace(answers, [name])
    }
  })

  test('a user who leaves the group or index loses access from the next request on', async () => {
    const { call } = shared.current
    const key = keys.get('the owner') ?? ''
    const search = async () => (await call('GET', `${BASE}/of-team/search?query=tarsier`, undefined, { key })).status
    expect(await search()).toBe(200)
    const [team] = (await call('GET', '/api/external/groups?search=team')).body.groups
    await call('PUT', `/api/external/groups/${team.id}`, { status: 'Inactive' })
    expect(await search()).toBe(404)
    await call('PUT', `/api/external/groups/${team.id}`, { status: 'Active', users: [] })
    expect(await search()).toBe(404)
    await call('PUT', `/api/external/groups/${team.id}`, { users: team.users.map(({ id }: { id: string }) => id) })
    expect(await search()).toBe(200)
  })

  /** The responses contain no word of an unreadable index. */
  function expectNoTrace(answers: Record<string, Answer>, reads: readonly Name[]): void {
    for (const name of NAMES.filter((one) => !reads.includes(one))) {
      for (const { text } of Object.values(answers)) expect(text).not.toContain(INDEXES[name])
    }
  }
})

/** The content of a response, without the caller's input and the request id. */
const gist = ({ status, text, body }: Answer, name: string) => ({
  status,
  text: text
    .replaceAll(String(body?.request_id), '<id>')
    .replaceAll(/"bundle_id":"[^"]*"/g, '"bundle_id":"<id>"')
    .replaceAll(name, '<name>'),
})
