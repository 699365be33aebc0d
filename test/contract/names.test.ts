import { beforeEach, describe, expect, test } from 'vitest'
import { describeEachEngine } from '../engines.ts'
import { sharedGateway } from '../harness.ts'
import { createCalendar } from './rights/calendar.ts'

/** How each resource with a name that people read is created. `field` is the member with the name. */
const RESOURCES = [
  { path: '/api/external/users', item: 'user', body: (mark: string) => ({ email: `${mark}@example.com` }) },
  { path: '/api/external/groups', item: 'group', body: () => ({ description: '' }) },
  {
    path: '/api/external/roles',
    item: 'role',
    field: 'displayName',
    body: (mark: string) => ({ name: mark, description: '' }),
  },
  { path: '/api/admin/api-keys', item: 'apiKey', body: () => ({}) },
  {
    path: '/api/admin/tenants',
    item: 'tenant',
    body: (mark: string) => ({ admin: { name: 'Ada', email: `${mark}@example.com` } }),
  },
  {
    path: '/api/external/smltp-policies',
    item: 'policy',
    isFixed: true,
    body: () => ({ description: '', policy: {} }),
  },
  { path: '/api/admin/prompt-shield-policies', item: 'policy', isFixed: true, body: () => ({ policy: {} }) },
  {
    path: '/api/admin/guard-rules',
    item: 'rule',
    isFixed: true,
    body: () => ({ kind: 'dlp', detector: 'keywords', words: ['Falcon'] }),
  },
] as const

const INVISIBLE = [
  ['a mark that reverses the line', 'invoice\u202egpj', 'U+202E'],
  ['a mark of direction', 'ops\u200f', 'U+200F'],
  ['an isolate', '\u2067ops', 'U+2067'],
  ['a space without width', 'op\u200bs', 'U+200B'],
  ['a joiner', 'op\u200ds', 'U+200D'],
  ['a soft hyphen', 'op\u00ads', 'U+00AD'],
  ['a filler', 'op\u3164s', 'U+1160'],
  ['a tag character', 'op\u{e0073}s', 'U+E0073'],
  ['a variation selector', 'op\ufe0fs', 'U+FE0F'],
  ['an empty Braille cell', 'op\u2800s', 'U+2800'],
  ['a line end', 'op\ns', 'U+000A'],
] as const

let count = 0
const mark = () => `mark-${count++}`

describeEachEngine('names that people read', (engine) => {
  const calendar = createCalendar()
  const shared = sharedGateway({ engine, clock: calendar })
  const call = (method: string, path: string, body?: unknown) => shared.current.call(method, path, body)
  beforeEach(() => calendar.forward(60_000))

  describe.each(RESOURCES)('$path', (resource) => {
    const { path, item, body } = resource
    const field = 'field' in resource ? resource.field : 'name'
    const create = (name: string) => call('POST', path, { ...body(mark()), [field]: name })
    const messageOf = (answer: { body: { message?: string; error: { message?: string } } }) =>
      answer.body.message ?? answer.body.error.message

    test.each(INVISIBLE)('%s is rejected, not removed', async (_, name, point) => {
      const { status, ...answer } = await create(name)
      expect([status, messageOf(answer)]).toEqual([
        400,
        `${field}: ${field} must not contain the invisible or control character ${point}.`,
      ])
    })

    test('a name is stored in the form NFKC', async () => {
      const { status, body: made, text } = await create(`Ｏｐｓ ﬁ${count}`)
      expect([status, made[item]?.[field]], text).toEqual([201, expect.stringMatching(/^Ops fi\d+$/)])
    })

    test('a name that looks like an existing one in letters of another script is rejected', async () => {
      const own = `amarkid${mark()}`
      expect((await create(own)).status).toBe(201)
      for (const [letter, script, point] of [
        ['а', 'Cyrillic', 'U+0430'],
        ['α', 'Greek', 'U+03B1'],
      ]) {
        const name = own.replace('a', letter as string)
        const { status, ...answer } = await create(name)
        expect([status, messageOf(answer)]).toEqual([
          400,
          `The name "${name}" looks like the existing name "${own}": "${letter}" (${point}) is a letter of ${script}. Choose another name.`,
        ])
      }
      for (const name of [own.replace('i', 'i\u0307'), own.replace('i', 'Ӏ')])
        expect((await create(name)).status).toBe(400)
      // The other way round, with another case.
      const foreign = `ор${mark()}`
      expect((await create(foreign)).status).toBe(201)
      expect((await create(foreign.replace('ор', 'Op'))).status).toBe(400)
    })

    test('names of one script are free, even if their letters look like the same Latin letters', async () => {
      const suffix = mark()
      for (const name of ['Казак', 'Қазақ', 'Team l', 'Team 1', 'modern', 'modem', 'Łódź', 'Lodz', '日本']) {
        expect([name, (await create(name + suffix)).status]).toEqual([name, 201])
      }
    })

    if ('isFixed' in resource) return
    test('a rename follows the same rules, and an existing name can be kept', async () => {
      const own = `renamed${mark()}`
      await create(own)
      const other = (await create(mark())).body[item]
      const renamed = await call('PUT', `${path}/${other.id}`, { [field]: own.replace('a', 'а') })
      expect([renamed.status, messageOf(renamed)]).toEqual([
        400,
        expect.stringContaining('looks like the existing name'),
      ])
      const hidden = await call('PUT', `${path}/${other.id}`, { [field]: `${own}\u202e` })
      expect(hidden.status).toBe(400)
      // A pair of names from before the rule.
      const { db } = shared.current.app
      const skeleton = { name_skeleton: own }
      const [table, column] = (
        {
          user: ['users', 'name'],
          group: ['groups', 'name'],
          role: ['roles', 'display_name'],
          apiKey: ['api_keys', 'name'],
          tenant: ['tenants', 'name'],
        } as const
      )[resource.item]
      const old = own.replace('e', 'е')
      await db
        .updateTable(table)
        .set({ ...skeleton, [column]: old })
        .where('id', '=', other.id)
        .execute()
      const kept = await call('PUT', `${path}/${other.id}`, { [field]: old })
      expect(kept.status, kept.text).toBe(200)
    })
  })

  test('letters of an index name are never dropped', async () => {
    const make = (name: string) => call('POST', '/api/external/indexes', { name })
    expect((await make('amarkid')).status).toBe(201)
    for (const name of ['amarkidх', 'ama\u200brkid', 'amarkid\u202e', 'amarkidé', 'амаркид']) {
      const { status, body } = await make(name)
      expect([name, status, body.error, body.message]).toEqual([
        name,
        400,
        'Invalid index name',
        'name must result in 3 to 50 letters a-z, digits or "-". Letters of other alphabets are not removed but rejected.',
      ])
      const key = await call('POST', '/api/admin/api-keys', { name: 'k', allowedIndexes: [name] })
      expect([key.status, key.body.error.details.field]).toEqual([400, 'allowedIndexes.0'])
    }
    // White space and punctuation follow the contract, and other forms of Latin letters become Latin letters.
    for (const [given, name] of [
      [' HR & Payroll (2026)! ', 'hr--payroll-2026'],
      ['Ｆｕｌｌ wide', 'full-wide'],
    ]) {
      const made = await make(given as string)
      expect([made.status, made.body.index?.name]).toEqual([201, name])
    }
  })
})
