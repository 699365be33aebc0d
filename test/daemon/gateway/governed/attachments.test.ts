// Attachments that a policy forbids, on every surface.
import { expect, test } from 'vitest'
import type { ProviderConfig } from '../../../../src/daemon/models/config.ts'
import { describeEachEngine } from '../../../engines.ts'
import { sharedGateway } from '../../../harness.ts'
import { pdf } from '../../knowledge/ingest/extract/files.ts'
import { addGuardedTenant } from '../chat/guarded-tenant.ts'

const base64 = (content: string | Buffer) => Buffer.from(content).toString('base64')
const PDF = 'application/pdf'
const OTTERS = base64(pdf([['Otters sleep in rafts.']]))
const PICTURE = base64('a picture of an otter')
const NO_LIMITS = {
  dailyLimit: null,
  monthlyLimit: null,
  rateLimit: { requestsPerMinute: null, requestsPerHour: null },
}

const chat = (...content: object[]) => ({ model: 'house/m', messages: [{ role: 'user', content }] })
const claude = (...content: object[]) => ({ model: 'claude/c', max_tokens: 5, messages: [{ role: 'user', content }] })
const responses = (...content: object[]) => ({ model: 'house/m', input: [{ role: 'user', content }] })
const gemini = (...parts: object[]) => ({ contents: [{ role: 'user', parts }] })
const GEMINI = '/v1beta/models/gemini/g:generateContent'
const IMAGE = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PICTURE } }
const result = (...content: object[]) => ({
  ...claude({ type: 'text', text: 'Look' }),
  messages: [
    { role: 'user', content: 'Look' },
    { role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'look', input: {} }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c', content }] },
  ],
})

/** Attachments whose text the gateway cannot read. */
const UNREADABLE: [kind: string, path: string, body: object][] = [
  [
    'image',
    '/v1/chat/completions',
    chat({ type: 'image_url', image_url: { url: `data:image/png;base64,${PICTURE}` } }),
  ],
  ['image', '/v1/chat/completions', chat({ type: 'image_url', image_url: { url: 'https://example.com/a.png' } })],
  ['audio', '/v1/chat/completions', chat({ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } })],
  ['stored', '/v1/chat/completions', chat({ type: 'file', file: { file_id: 'file-1' } })],
  ['image', '/v1/messages', claude(IMAGE)],
  ['image', '/v1/messages', result(IMAGE)],
  ['image', '/v1/messages/count_tokens', claude(IMAGE)],
  [
    'image',
    '/v1/messages',
    claude({ type: 'document', source: { type: 'content', content: [{ type: 'text', text: 'a' }, IMAGE] } }),
  ],
  ['address', '/v1/messages', claude({ type: 'document', source: { type: 'url', url: 'https://example.com/a.pdf' } })],
  ['image', '/v1/responses', responses({ type: 'input_image', image_url: `data:image/png;base64,${PICTURE}` })],
  ['image', '/v1/responses', responses({ type: 'input_image', file_id: 'file-1' })],
  ['image', GEMINI, gemini({ inlineData: { mimeType: 'image/png', data: PICTURE } })],
  ['audio', GEMINI, gemini({ inlineData: { mimeType: 'audio/wav', data: PICTURE } })],
  ['stored', GEMINI, gemini({ fileData: { mimeType: PDF, fileUri: 'https://example.com/a.pdf' } })],
]
/** Files whose text the gateway reads. */
const READABLE: [kind: string, path: string, body: object][] = [
  [
    'pdf',
    '/v1/chat/completions',
    chat({ type: 'file', file: { filename: 'a.pdf', file_data: `data:${PDF};base64,${OTTERS}` } }),
  ],
  ['pdf', '/v1/messages', claude({ type: 'document', source: { type: 'base64', media_type: PDF, data: OTTERS } })],
  ['pdf', GEMINI, gemini({ inlineData: { mimeType: PDF, data: OTTERS } })],
]

describeEachEngine('attachments', (engine) => {
  const shared = sharedGateway(() => {
    const plain = { baseUrl: 'http://127.0.0.1:1', apiKey: 'x', headers: {}, models: undefined }
    return {
      engine,
      providers: [
        { ...plain, name: 'house', kind: 'openai' },
        { ...plain, name: 'claude', kind: 'anthropic' },
        { ...plain, name: 'gemini', kind: 'google' },
      ] satisfies ProviderConfig[],
    }
  })
  const tenantWith = (policy: object) => addGuardedTenant(shared.current, { policy, settings: NO_LIMITS })

  test('are rejected by `block`, and by `text-only` if they cannot be read', async () => {
    for (const attachments of ['block', 'text-only'] as const) {
      const { post, incidents } = await tenantWith({ attachments, serverTools: { allowed: true } })
      const forbidden = attachments === 'block' ? [...UNREADABLE, ...READABLE] : UNREADABLE
      for (const [kind, path, body] of forbidden) {
        const { status, text } = await post(path, body)
        expect([status, text], `${attachments} ${path} ${kind}`).toEqual([
          403,
          expect.stringContaining(`the request contains attachments (${kind}), and attachments of the policy is`),
        ])
      }
      const found = await incidents()
      expect(found.map(({ rule_id }) => rule_id)).toEqual(forbidden.map(() => 'attachments'))
    }
  })

  test('are replaced by their text under `text-only`', async () => {
    const { post } = await tenantWith({ attachments: 'text-only' })
    const { upstream } = shared.current
    const body = { ...READABLE[0]?.[2], model: 'test/any' }
    const answer = await post('/v1/chat/completions', body)
    expect([answer.status, answer.body.gateway.changed]).toMatchObject([
      200,
      [{ field: 'file', asked: PDF, used: 'text', why: 'policy' }],
    ])
    const sent = upstream.requests.at(-1)?.rawBody
    expect(sent).toContain('Otters sleep in rafts.')
    expect(sent).not.toContain(OTTERS.slice(0, 40))
  })

  test('are only recorded in monitor mode, and sent', async () => {
    const { post, incidents } = await tenantWith({ attachments: 'block', mode: 'monitor' })
    const image = { type: 'image_url', image_url: { url: `data:image/png;base64,${PICTURE}` } }
    expect((await post('/v1/chat/completions', { ...chat(image), model: 'test/any' })).status).toBe(200)
    expect(await incidents()).toMatchObject([{ rule_id: 'attachments', enforced: 0 }])
    expect(shared.current.upstream.requests.at(-1)?.rawBody).toContain(PICTURE)
  })

  test('do not concern plain texts', async () => {
    const { post } = await tenantWith({ attachments: 'block' })
    const text = { type: 'text', text: 'Do otters sleep?' }
    expect((await post('/v1/chat/completions', { ...chat(text), model: 'test/any' })).status).toBe(200)
  })
})
