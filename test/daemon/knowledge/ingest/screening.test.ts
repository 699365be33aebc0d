import { expect, test } from 'vitest'
import { SearchResponse, TrainResponse } from '../../../../src/shared/wire/indexes.ts'
import { addKey } from '../../../accounts.ts'
import { dumpStore } from '../../../contract/rights/store-dump.ts'
import { describeEachEngine } from '../../../engines.ts'
import { sharedGateway } from '../../../harness.ts'
import { holdRequest } from '../../../held-request.ts'
import { addGuardedTenant } from '../../gateway/chat/guarded-tenant.ts'
import { pdf } from './extract/files.ts'
import { MULTIPART, multipart, type TestPart } from './multipart.ts'

const BASE = '/api/external/indexes'
const TRAIN = `${BASE}/{indexName}/train`
const SEARCH = `${BASE}/{indexName}/search`
const RULES = '/api/admin/guard-rules'
const CARD = '4111 1111 1111 1111'
const ADDRESS = 'ada.lovelace@analytical.org'
const MASKED = '***.********@a*********.org'

const pii = (action: string, more: object = {}) => ({ policy: { pii: { enabled: true, action, ...more } } })
const note = (name: string, content: string): TestPart => ({
  field: 'text_inputs',
  content: JSON.stringify([{ name, content }]),
})

describeEachEngine('documents that are sent to an index', (engine) => {
  const shared = sharedGateway({ engine })

  /** A tenant with this policy and an empty index. */
  async function guardedIndex(options: Parameters<typeof addGuardedTenant>[1]) {
    const guarded = await addGuardedTenant(shared.current, options)
    expect((await guarded.tenant.call('POST', BASE, { name: 'notes' })).status).toBe(201)
    const send = (parts: readonly TestPart[], key = guarded.key) =>
      shared.current.call('POST', `${BASE}/notes/train`, multipart(parts), { headers: MULTIPART, key })
    return {
      ...guarded,
      send,
      async train(...parts: TestPart[]) {
        return TrainResponse.parse((await send(parts)).body).results.documents
      },
      async search(query: string) {
        const answer = await shared.current.call(
          'GET',
          `${BASE}/notes/search?${new URLSearchParams({ query })}`,
          undefined,
          {
            key: guarded.key,
          },
        )
        return SearchResponse.parse(answer.body).results.matches
      },
      stored: async () =>
        await guarded.tenant.db
          .selectFrom('passages')
          .select(['body', 'headings', 'page'])
          .where('tenant_id', '=', guarded.tenant.id)
          .orderBy('id')
          .execute(),
      dump: async () => (await dumpStore(guarded.tenant.db, { tenantId: guarded.tenant.id })).join('\n'),
    }
  }

  test('are rejected individually if a rule blocks them, and the others are indexed', async () => {
    const { train, incidents, events, keyId, dump } = await guardedIndex(pii('block'))
    const documents = await train(
      { fileName: 'bill.txt', content: `Paid with ${CARD}.` },
      { fileName: 'otter.txt', content: 'Otters hold hands.' },
      note('second bill', `Paid with ${CARD}, told to ${ADDRESS}.`),
    )
    const error = (kinds: string) =>
      `Blocked: it contains data that a rule forbids (${kinds}). Remove it and send the document again.`
    expect(documents).toEqual([
      { name: 'bill.txt', status: 'failed', chunks: 0, error: error('CREDIT_CARD') },
      { name: 'otter.txt', status: 'indexed', chunks: 1 },
      { name: 'second bill', status: 'failed', chunks: 0, error: error('CREDIT_CARD, EMAIL') },
    ])
    const [incident, ...others] = await incidents()
    expect(others).toEqual([])
    expect(incident).toMatchObject({
      ...{ kind: 'pii', direction: 'input', action: 'block', enforced: 1, endpoint: TRAIN, api_key_id: keyId },
      ...{ policy: 'ours', rule_id: 'policy:ours', match_count: 3, model: null },
    })
    expect(JSON.parse(incident?.types ?? '')).toEqual({ CREDIT_CARD: 2, EMAIL: 1 })
    expect((await events()).map(({ type }) => type).sort()).toEqual(['index:failed', 'pii:incident'])
    const store = await dump()
    expect([/(?<![-\da-f])4111(?![-\da-f])/.test(store), store.includes('lovelace')]).toEqual([false, false])
  })

  test('are all reported when all are rejected, which is recorded too', async () => {
    const { send, incidents } = await guardedIndex(pii('block'))
    const answer = await send([{ fileName: 'bill.txt', content: CARD }])
    expect([answer.status, answer.text]).toEqual([400, expect.stringContaining('(CREDIT_CARD)')])
    expect(answer.text).not.toContain('4111')
    expect(await incidents()).toHaveLength(1)
  })

  test('are reported even when the training breaks', async () => {
    const { tenant, key, send, incidents } = await guardedIndex(pii('block'))
    expect((await send([{ fileName: 'otter.txt', content: 'Otters hold hands.' }])).status).toBe(200)
    const parts = [
      { fileName: 'bill.txt', content: CARD },
      { fileName: 'heron.txt', content: 'Herons stand still.' },
    ]
    const held = await holdRequest(shared.current.url, {
      ...{ key, method: 'POST', path: `${BASE}/notes/train` },
      ...{ type: MULTIPART['content-type'], body: multipart(parts) },
    })
    const { id } = await tenant.db
      .selectFrom('indexes')
      .select('id')
      .where('tenant_id', '=', tenant.id)
      .executeTakeFirstOrThrow()
    expect((await tenant.call('DELETE', `${BASE}/${id}`)).status).toBe(200)
    expect((await held.finish()).status).toBe(404)
    expect(await incidents()).toMatchObject([{ action: 'block', match_count: 1 }])
  })

  test('are stored as rules change them: text, headings, title and pages', async () => {
    const { train, stored, search, dump, incidents } = await guardedIndex(pii('mask'))
    const filler = Array.from({ length: 30 }, (_, line) => `Line ${line} tells of ${ADDRESS} and of nothing else.`)
    await train(
      { fileName: 'a.md', content: `# Of ${ADDRESS}\n\nWalruses write to ${ADDRESS}.` },
      { fileName: 'b.html', content: `<title>${ADDRESS}</title><h1>Otters</h1><p>Hold hands.` },
      {
        fileName: 'c.pdf',
        content: pdf([filler, [...filler, 'Herons stand still.']], { title: `By ${ADDRESS} alone` }),
      },
    )
    const [walrus] = await search('walruses')
    expect(walrus).toMatchObject({ content: `Walruses write to ${MASKED}.`, metadata: { title: `Of ${MASKED}` } })
    expect((await stored())[0]).toMatchObject({ headings: `Of ${MASKED}` })
    expect((await search('otters'))[0]?.metadata.title).toBe(MASKED)
    const [heron] = await search('herons')
    expect(heron?.metadata.page).toBe(2)
    expect((await dump()).includes('lovelace')).toBe(false)
    expect(await incidents()).toMatchObject([{ direction: 'input', action: 'mask', match_count: 64 }])
  })

  test('of any length are scanned before they are split', async () => {
    const { train, stored } = await guardedIndex(pii('remove'))
    const words = (count: number) => 'Otters hold hands while they sleep. '.repeat(count)
    await train({ fileName: 'long.txt', content: `${words(27)}${CARD} ${words(428)}${ADDRESS} ${words(500)}` })
    const text = (await stored()).map(({ body }) => body).join('\n')
    expect([/\d/.test(text), text.includes('lovelace'), text.includes('@')]).toEqual([false, false, false])
  })

  test('keep values that only prompts must not contain, and values that are only counted', async () => {
    const { train, stored, incidents } = await guardedIndex(pii('tokenize'))
    await train({ fileName: 'a.txt', content: `Write to ${ADDRESS}.` })
    expect((await stored()).map(({ body }) => body)).toEqual([`Write to ${ADDRESS}.`])
    expect(await incidents()).toMatchObject([{ action: 'tokenize', enforced: 1, direction: 'input' }])
  })

  test('obey the rules of the tenant as well, and the policy of the key before the active one', async () => {
    const { tenant, send, incidents, stored } = await guardedIndex(pii('block'))
    const project = { name: 'Projects', kind: 'dlp', detector: 'keywords', words: ['falcon'], action: 'mask' }
    expect((await tenant.call('POST', RULES, project)).status).toBe(201)
    const watching = { ...project, name: 'Watching', words: ['otter'], action: 'block', simulate: true }
    expect((await tenant.call('POST', RULES, watching)).status).toBe(201)
    const { secret } = await addKey(tenant.db, tenant.admin, { settings: { defaultSMLTPPolicy: 'public' } })
    const answer = await send([{ fileName: 'a.txt', content: `The falcon and the otter write to ${ADDRESS}.` }], secret)
    expect(answer.status).toBe(200)
    expect((await stored()).map(({ body }) => body)).toEqual([`The [PROJECTS] and the otter write to ${ADDRESS}.`])
    expect(await incidents()).toMatchObject([
      { rule_id: 'projects', action: 'mask', enforced: 1, policy: 'public' },
      { rule_id: 'watching', action: 'block', enforced: 0, policy: 'public' },
    ])
  })

  test('are not read again under the same rules, but are under others', async () => {
    const { tenant, train, stored } = await guardedIndex(pii('mask'))
    const file = { fileName: 'a.txt', content: `The falcon writes to ${ADDRESS}.` }
    expect(await train(file)).toMatchObject([{ status: 'indexed' }])
    expect(await train(file)).toMatchObject([{ status: 'unchanged' }])
    const rule = { name: 'Projects', kind: 'dlp', detector: 'keywords', words: ['falcon'], action: 'mask' }
    expect((await tenant.call('POST', RULES, rule)).status).toBe(201)
    expect((await stored()).map(({ body }) => body)).toEqual([`The falcon writes to ${MASKED}.`])
    expect(await train(file)).toMatchObject([{ status: 'indexed' }])
    const published = await tenant.db.selectFrom('documents').select('id').where('tenant_id', '=', tenant.id).execute()
    expect(published).toHaveLength(1)
    expect((await stored()).map(({ body }) => body)).toEqual([`The [PROJECTS] writes to ${MASKED}.`])
  })

  test('have masked names, and are still recognised when they are sent again', async () => {
    const { train, dump } = await guardedIndex(pii('mask'))
    const file = (name: string, content = 'Otters hold hands.') => ({ fileName: `${name}.txt`, content })
    const first = await train(file(ADDRESS), file('bob@analytical.org'))
    expect(first).toMatchObject([{ status: 'indexed' }, { status: 'indexed' }])
    const [ada, bob] = first.map(({ name }) => name)
    expect([ada, bob]).toEqual(Array(2).fill(expect.stringMatching(/^EMAIL_[a-z0-9]{10}\.txt$/)))
    expect(ada).not.toBe(bob)
    expect(await train(file(ADDRESS))).toEqual([{ name: ada, status: 'unchanged', chunks: 1 }])
    expect(await train(file(ADDRESS, 'Otters float.'))).toMatchObject([{ name: ada, status: 'indexed' }])
    expect((await dump()).includes('lovelace')).toBe(false)
  })

  test('are rejected by name if a rule blocks the name', async () => {
    const { train, dump } = await guardedIndex(pii('block'))
    const [named, other] = await train(
      { fileName: `${ADDRESS}.txt`, content: 'Otters hold hands.' },
      { fileName: 'b.txt', content: 'Otters hold hands.' },
    )
    expect(named).toMatchObject({ status: 'failed', error: expect.stringContaining('(EMAIL)') })
    expect(JSON.stringify(named)).not.toContain('lovelace')
    expect(other).toMatchObject({ status: 'indexed' })
    expect((await dump()).includes('lovelace')).toBe(false)
  })

  test('are rejected when rules remove every word', async () => {
    const { send } = await guardedIndex(pii('remove'))
    const answer = await send([{ fileName: 'a.txt', content: ADDRESS }])
    expect([answer.status, answer.text]).toEqual([400, expect.stringContaining('remove all words of this document')])
  })

  test('are shown in search results according to the output rules, which is recorded first', async () => {
    const { train, search, incidents } = await guardedIndex(pii('mask', { direction: 'output' }))
    await train({ fileName: 'ada@analytical.org.txt', content: `# ${ADDRESS}\n\nOtters write to ${ADDRESS}.` })
    expect(await incidents()).toEqual([])
    const [otter] = await search('otters')
    expect(otter).toMatchObject({
      source: '***@a*********.org.txt',
      content: `# ${MASKED}\n\nOtters write to ${MASKED}.`,
    })
    const [incident, ...others] = await incidents()
    expect([incident, others]).toMatchObject([
      { direction: 'output', action: 'mask', endpoint: SEARCH, enforced: 1 },
      [],
    ])
  })

  test('are omitted from search results if an output rule blocks them', async () => {
    const { train, search, incidents } = await guardedIndex(pii('block', { direction: 'output' }))
    await train(
      { fileName: 'a.txt', content: `Otters write to ${ADDRESS}.` },
      { fileName: 'b.txt', content: 'Otters hold hands.' },
    )
    expect((await search('otters')).map(({ rank, source }) => [rank, source])).toEqual([[1, 'b.txt']])
    expect(await incidents()).toMatchObject([{ direction: 'output', action: 'block', enforced: 1, match_count: 1 }])
  })

  test('are shown with masks instead of pseudonyms, because search does not restore pseudonyms', async () => {
    const { train, search } = await guardedIndex(pii('tokenize'))
    await train({ fileName: 'a.txt', content: `Otters write to ${ADDRESS}.` })
    expect((await search('otters')).map(({ content }) => content)).toEqual([`Otters write to ${MASKED}.`])
  })
})
