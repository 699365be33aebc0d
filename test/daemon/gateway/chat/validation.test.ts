import { expect, test } from 'vitest'
import { MESSAGE_CONTENT_BYTES } from '../../../../src/shared/spec-limits.ts'
import { describeEachEngine } from '../../../engines.ts'
import { sharedGateway } from '../../../harness.ts'

const user = (content: unknown) => ({ role: 'user', content })
const messages = (count: number) => Array.from({ length: count }, () => user('hi'))
const half = 'x'.repeat(MESSAGE_CONTENT_BYTES / 2)

/** Every validation rule: the request, and the expected status and `error`. */
const REFUSALS: [rule: string, body: unknown, status: number, error: string][] = [
  ['index is required', { prompt: 'hi', index: undefined }, 400, 'Index required'],
  ['index: null is a missing index', { prompt: 'hi', index: null }, 400, 'Index required'],
  ['index: "" is a missing index', { prompt: 'hi', index: '' }, 400, 'Index required'],
  [
    'use_rag: false does not waive the index',
    { prompt: 'hi', index: undefined, use_rag: false },
    400,
    'Index required',
  ],
  ['index must be a string', { prompt: 'hi', index: 7 }, 400, 'Invalid index'],
  ['a missing index is rejected', { prompt: 'hi', index: 'nowhere' }, 403, 'Access denied'],
  ['prompt or messages is required', {}, 400, 'Invalid messages'],
  ['prompt and messages exclude each other', { prompt: 'hi', messages: [user('hi')] }, 400, 'Invalid messages'],
  ['prompt must be a string', { prompt: 1 }, 400, 'Invalid prompt'],
  ['prompt must not be empty', { prompt: ' ' }, 400, 'Invalid prompt'],
  ['prompt over 256 KB', { prompt: 'x'.repeat(MESSAGE_CONTENT_BYTES + 1) }, 400, 'Invalid prompt'],
  ['prompt over 256 KB in bytes', { prompt: 'é'.repeat(MESSAGE_CONTENT_BYTES / 2 + 1) }, 400, 'Invalid prompt'],
  ['prompt and system over 256 KB together', { prompt: half, system_message: `${half}x` }, 400, 'Invalid prompt'],
  ['messages must be an array', { messages: 'hi' }, 400, 'Invalid messages'],
  ['messages must not be empty', { messages: [] }, 400, 'Invalid messages'],
  ['a message must be an object', { messages: ['hi'] }, 400, 'Invalid messages'],
  ['a message needs a role', { messages: [{ content: 'hi' }] }, 400, 'Invalid messages'],
  ['a message needs content', { messages: [{ role: 'user' }] }, 400, 'Invalid messages'],
  ['content must be a string', { messages: [user(['hi'])] }, 400, 'Invalid messages'],
  ['role must be a known one', { messages: [{ role: 'tool', content: 'hi' }] }, 400, 'Invalid messages'],
  ['system only first', { messages: [user('hi'), { role: 'system', content: 's' }] }, 400, 'Invalid messages'],
  [
    'system only once',
    {
      messages: [
        { role: 'system', content: 'a' },
        { role: 'system', content: 'b' },
      ],
    },
    400,
    'Invalid messages',
  ],
  ['at most 100 messages', { messages: messages(101) }, 400, 'Invalid messages'],
  ['at most 256 KB of messages', { messages: [user(half), user(half), user('x')] }, 400, 'Invalid messages'],
  [
    'system_message with a system entry',
    { messages: [{ role: 'system', content: 'a' }, user('hi')], system_message: 'b' },
    400,
    'Invalid messages',
  ],
  ['a conversation needs a user turn', { messages: [{ role: 'assistant', content: 'hi' }] }, 400, 'Invalid messages'],
  ['a user turn needs content', { messages: [user(' ')] }, 400, 'Invalid messages'],
  ['a model with a NUL', { prompt: 'hi', model: 'test/a\u0000b' }, 400, 'Invalid model'],
  ['a model of 257 characters', { prompt: 'hi', model: `test/${'a'.repeat(252)}` }, 400, 'Invalid model'],
  ['an index with a NUL', { prompt: 'hi', index: 'a\u0000' }, 400, 'Invalid index'],
  ['system_message must be a string', { prompt: 'hi', system_message: {} }, 400, 'Invalid system_message'],
  ['model is required', { prompt: 'hi', model: undefined }, 400, 'Model required'],
  ['model must be a string', { prompt: 'hi', model: 1 }, 400, 'Invalid model'],
  ['model must name a provider', { prompt: 'hi', model: 'gpt' }, 400, 'Invalid model'],
  ['model must name a model', { prompt: 'hi', model: 'test/' }, 400, 'Invalid model'],
  ['model of an unknown provider', { prompt: 'hi', model: 'nobody/x' }, 400, 'Invalid model'],
  ['an unknown model of the provider', { prompt: 'hi', model: 'local/nothing' }, 400, 'Invalid model'],
  ['models must be an array', { prompt: 'hi', models: 'test/a' }, 400, 'Invalid models'],
  ['models must not be empty', { prompt: 'hi', models: [] }, 400, 'Invalid models'],
  ['an entry of models must be a model', { prompt: 'hi', models: [7] }, 400, 'Invalid models'],
  ['an entry object needs a model', { prompt: 'hi', models: [{ timeout_ms: 1000 }] }, 400, 'Invalid models'],
  [
    'at most 3 distinct models',
    { prompt: 'hi', models: ['test/a', 'test/b', 'test/c', 'test/d'] },
    400,
    'Invalid models',
  ],
  [
    'entry timeouts must be numbers',
    { prompt: 'hi', models: [{ model: 'test/a', timeout_ms: '5' }] },
    400,
    'Invalid models',
  ],
  [
    'models and fallback_models exclude each other',
    { prompt: 'hi', models: ['test/a'], fallback_models: ['test/b'] },
    400,
    'Invalid fallback_models',
  ],
  ['fallback_models must be an array', { prompt: 'hi', fallback_models: 'test/b' }, 400, 'Invalid fallback_models'],
  [
    'at most 2 fallbacks',
    { prompt: 'hi', fallback_models: ['test/b', 'test/c', 'test/d'] },
    400,
    'Invalid fallback_models',
  ],
  ['redundancy must be an object', { prompt: 'hi', redundancy: 'yes' }, 400, 'Invalid redundancy'],
  ['redundancy.on lists known triggers', { prompt: 'hi', redundancy: { on: ['bad_luck'] } }, 400, 'Invalid redundancy'],
  ['redundancy.timeout_ms is a number', { prompt: 'hi', redundancy: { timeout_ms: '1' } }, 400, 'Invalid redundancy'],
  ['use_rag must be a boolean', { prompt: 'hi', use_rag: 'no' }, 400, 'Invalid use_rag'],
  ['temperature must be a number', { prompt: 'hi', temperature: 'warm' }, 400, 'Invalid temperature'],
  ['max_tokens must be a number', { prompt: 'hi', max_tokens: '10' }, 400, 'Invalid max_tokens'],
  ['max_tokens must be whole', { prompt: 'hi', max_tokens: 1.5 }, 400, 'Invalid max_tokens'],
  ['max_tokens must be at least 1', { prompt: 'hi', max_tokens: 0 }, 400, 'Invalid max_tokens'],
  ['stream must be a boolean', { prompt: 'hi', stream: 'yes' }, 400, 'Invalid stream'],
  ['conversation_id must be a string', { prompt: 'hi', conversation_id: 5 }, 400, 'Invalid conversation_id'],
  ['conversation_id is bounded', { prompt: 'hi', conversation_id: 'c'.repeat(257) }, 400, 'Invalid conversation_id'],
  ['user_id must be 24 hex', { prompt: 'hi', user_id: 'me' }, 400, 'Invalid user_id'],
  ['user_id must exist', { prompt: 'hi', user_id: 'f'.repeat(24) }, 400, 'Invalid user_id'],
  ['smltp_policy must be a string', { prompt: 'hi', smltp_policy: 1 }, 400, 'Invalid smltp_policy'],
  ['smltp_policy must exist', { prompt: 'hi', smltp_policy: 'lenient' }, 400, 'Invalid smltp_policy'],
  ['a policy that the key may not use', { prompt: 'hi', smltp_policy: 'confidential' }, 403, 'Access denied'],
  ['prompt_shield must be an object', { prompt: 'hi', prompt_shield: true }, 400, 'Invalid prompt_shield'],
  ['prompt_shield.enabled is a boolean', { prompt: 'hi', prompt_shield: { enabled: 1 } }, 400, 'Invalid prompt_shield'],
  [
    'prompt_shield cannot opt out and choose',
    { prompt: 'hi', prompt_shield: { enabled: false, policy: 'x' } },
    400,
    'Invalid prompt_shield',
  ],
  ['a disabled shield is rejected', { prompt: 'hi', prompt_shield: { enabled: true } }, 403, 'Access denied'],
  ['the body must be an object', '[]', 400, 'Invalid request'],
  ['the body must be JSON', '{"prompt":', 400, 'Invalid JSON'],
  ['the body must not be empty', '', 400, 'Invalid JSON'],
  ['the body must be UTF-8', Buffer.from([0x22, 0xff, 0x22]), 400, 'Invalid JSON'],
  ['the body must not be nested 5,000 levels deep', `${'['.repeat(5000)}${']'.repeat(5000)}`, 400, 'Invalid JSON'],
  [
    'an unknown field must not be nested 33 levels deep',
    `{"prompt":"hi","index":"Zero-Knowledge","x":${'['.repeat(33)}${']'.repeat(33)}}`,
    400,
    'Invalid JSON',
  ],
  ['a 300 KB prompt', { prompt: 'x'.repeat(300_000) }, 400, 'Invalid prompt'],
  ['a body above 1 MiB', { prompt: 'x'.repeat(1_100_000) }, 413, 'Request too large'],
]

describeEachEngine('POST /chat/completions refuses what breaks a rule of the contract', (engine) => {
  const gateway = sharedGateway({ engine })

  test.each(REFUSALS)('%s', async (_rule, body, status, error) => {
    const raw = typeof body === 'string' || Buffer.isBuffer(body)
    const answer = raw
      ? await gateway.current.call('POST', '/api/external/chat/completions', body)
      : await gateway.current.chat(body as Record<string, unknown>)
    expect({ status: answer.status, body: answer.body }).toEqual({
      status,
      body: {
        success: false,
        error,
        message: expect.any(String),
        request_id: answer.headers['x-request-id'],
        bundle_id: answer.headers['x-smltp-bundle-id'],
      },
    })
    expect(gateway.current.upstream.requests).toHaveLength(0)
  })

  test('after all of them the daemon still responds', async () => {
    expect((await gateway.current.chat({ prompt: 'hi' })).status).toBe(200)
  })
})
