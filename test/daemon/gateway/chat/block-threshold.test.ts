// `pii.blockThreshold`: a few findings are handled by the action, many findings block.
import { expect, test } from 'vitest'
import { describeEachEngine } from '../../../engines.ts'
import { sharedGateway } from '../../../harness.ts'
import { chatJson, chatStream, replyJson, replySplit } from '../../../upstream.ts'
import { MULTIPART, multipart } from '../../knowledge/ingest/multipart.ts'
import { addGuardedTenant } from './guarded-tenant.ts'

const ONE = 'ada.lovelace@analytical.org'
const TWO = `${ONE} and grace.hopper@analytical.org`
const PII = { enabled: true, action: 'mask', blockThreshold: 2 } as const
const NO_LIMITS = {
  dailyLimit: null,
  monthlyLimit: null,
  rateLimit: { requestsPerMinute: null, requestsPerHour: null },
}

describeEachEngine('a threshold of findings', (engine) => {
  const shared = sharedGateway({ engine })
  const tenantWith = (policy: object = { pii: PII }) =>
    addGuardedTenant(shared.current, { policy, settings: { ...NO_LIMITS, indexAccess: 'write' } })
  const sent = () => shared.current.upstream.requests.at(-1)?.rawBody ?? ''

  test('blocks a request whose texts together reach it, and records the action', async () => {
    const { chat, incidents } = await tenantWith()
    expect((await chat({ prompt: ONE })).status).toBe(200)
    expect(sent()).not.toContain(ONE)
    const messages = [
      { role: 'user', content: ONE },
      { role: 'assistant', content: 'Who else?' },
      { role: 'user', content: 'grace.hopper@analytical.org' },
    ]
    const blocked = await chat({ messages })
    expect([blocked.status, blocked.body]).toMatchObject([
      403,
      { error: 'Content blocked', message: expect.stringContaining('EMAIL') },
    ])
    expect((await incidents()).map(({ action, enforced }) => [action, enforced])).toEqual([
      ['mask', 1],
      ['block', 1],
    ])
  })

  test('also applies if findings are otherwise only logged', async () => {
    const { chat } = await tenantWith({ pii: { ...PII, action: 'log' } })
    expect((await chat({ prompt: ONE })).status).toBe(200)
    expect(sent()).toContain(ONE)
    expect((await chat({ prompt: TWO })).status).toBe(403)
    const monitor = await tenantWith({ mode: 'monitor', pii: PII })
    expect((await monitor.chat({ prompt: TWO })).status).toBe(200)
  })

  test('blocks an answer, whole or streamed, at the finding that reaches it', async () => {
    const { chat, stream } = await tenantWith()
    const { upstream } = shared.current
    upstream.script(replyJson(chatJson(`Write to ${ONE}.`)))
    const masked = await chat({ prompt: 'hi' })
    expect([masked.status, masked.body.choices[0].message.content]).toEqual([200, expect.not.stringContaining(ONE)])
    upstream.script(replyJson(chatJson(`Write to ${TWO}.`)))
    expect((await chat({ prompt: 'hi' })).status).toBe(403)
    upstream.script(replySplit(chatStream([`Write to ${TWO}. They will answer.`]), [60, 120, 180]))
    const { text } = await stream({ prompt: 'hi' })
    expect(text).toContain('Content blocked')
    expect(text).not.toContain('[DONE]')
    expect(text).not.toContain('They will answer')
    expect(text).not.toContain('grace.hopper')
  })

  test('blocks a document, and omits a stored passage', async () => {
    const { tenant, key } = await tenantWith()
    const index = await tenant.call('POST', '/api/external/indexes', { name: 'staff' })
    expect(index.status, index.text).toBe(201)
    const body = multipart([
      { fileName: 'one.md', content: `Ada reads otters at ${ONE}.` },
      { fileName: 'two.md', content: `Both read otters at ${TWO}.` },
    ])
    const train = () =>
      shared.current.call('POST', '/api/external/indexes/staff/train', body, { headers: MULTIPART, key })
    const statuses = async () => (await train()).body.results.documents.map(({ status }: { status: string }) => status)
    expect(await statuses()).toEqual(['indexed', 'failed'])
    await tenant.call('POST', '/api/external/smltp-policies/public/activate')
    expect(await statuses()).toEqual(['indexed', 'indexed'])
    await tenant.call('POST', '/api/external/smltp-policies/ours/activate')
    const search = await shared.current.call('GET', '/api/external/indexes/staff/search?query=otters', undefined, {
      key,
    })
    expect(search.body.results.matches.map(({ source }: { source: string }) => source)).toEqual(['one.md'])
  })
})
