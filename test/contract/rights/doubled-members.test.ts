import { expect, test } from 'vitest'
import { describeEachEngine } from '../../engines.ts'
import { sharedGateway } from '../../harness.ts'
import { createCalendar } from './calendar.ts'
import { ROUTE_CALLS } from './route-calls.ts'
import { nothing } from './world.ts'

const WITH_BODY = Object.entries(ROUTE_CALLS).flatMap(([endpoint, { bodies }]) =>
  bodies === undefined ? [] : [{ endpoint, body: bodies(nothing(), 'name')[0] }],
)

/** The message of an error, in any error format. */
const messageOf = ({ body }: { body: { message?: string; error: { message?: string } } }) =>
  body.message ?? body.error.message

describeEachEngine('a member that a JSON body has twice', (engine) => {
  const shared = sharedGateway({ engine, clock: createCalendar() })
  const send = async (endpoint: string, body: string) => {
    const [method = '', pattern = ''] = endpoint.split(' ')
    return shared.current.call(method, pattern.replace(/\{.*\}/, '0'.repeat(24)), body)
  }

  test.each(WITH_BODY)('$endpoint: is rejected on the top level and below it', async ({ endpoint, body }) => {
    const json = JSON.stringify(body)
    const first = Object.keys(body)[0] ?? 'zz'
    const rest = json === '{}' ? '' : `,${json.slice(1, -1)}`
    const top = await send(endpoint, `{"zz":{},"${first}":null${rest || `,"${first}":1`}}`)
    expect([top.status, messageOf(top)]).toEqual([400, `The JSON body has the member "${first}" twice. Send it once.`])
    const inner = await send(endpoint, `{"zz":[0,{"a":{"b":1,"\\u0062":2}}]${rest}}`)
    expect([inner.status, messageOf(inner)]).toEqual([
      400,
      'The JSON body has the member "b" twice in zz.1.a. Send it once.',
    ])
  })

  test('also in a large body, which is read in pieces', async () => {
    const turns = Array.from({ length: 60 }, () => ({ role: 'user', content: 'x'.repeat(10_000) }))
    const large = JSON.stringify({ model: 'local/extract', messages: turns })
    const endpoint = 'POST /api/external/v1/chat/completions'
    expect((await send(endpoint, large)).status).toBe(200)
    const twice = await send(endpoint, large.replace(/\}\]\}$/, ',"role":"system"}]}'))
    expect([twice.status, twice.body.error]).toEqual([
      400,
      expect.objectContaining({ message: 'The JSON body has the member "role" twice in messages.59. Send it once.' }),
    ])
  })

  test('the later of two limits does not replace the first', async () => {
    const made = await send('POST /api/admin/api-keys', '{"name":"k","allowedIPs":["10.0.0.1"],"allowedIPs":[]}')
    expect([made.status, made.body.error.code, made.body.error.details.field]).toEqual([
      400,
      'INVALID_JSON',
      'allowedIPs',
    ])
  })
})
