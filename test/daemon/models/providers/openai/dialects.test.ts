import { describe, expect, test } from 'vitest'
import { assembleAnswer } from '../../../../../src/daemon/models/providers/stream/assembly.ts'
import { splitAt } from '../../../../upstream.ts'
import { formatFor, playBody, playStream, readStream } from './playback.ts'

const frame = (chunk: object) => `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', ...chunk })}\n\n`
const delta = (fields: object, more: object = {}) =>
  frame({ choices: [{ index: 0, delta: fields, finish_reason: null, ...more }] })
const end = (reason: string, more: object = {}) =>
  frame({ choices: [{ index: 0, delta: {}, finish_reason: reason }], ...more })
const DONE = 'data: [DONE]\n\n'
const usage = { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 }
const call = (name: string, text: string, more: object = {}) => ({
  type: 'function',
  function: { name, arguments: text },
  ...more,
})
const answered = { outcome: 'complete', text: 'Hello' }
const counted = { ...answered, usage: { inputTokens: 9, outputTokens: 3 } }

/** Separated by one newline each; the last one has no newline. */
const lines = (events: string[]) => events.join('').replaceAll('\n\n', '\n').slice(0, -1)
const databricksReasoning = {
  type: 'reasoning',
  summary: [
    { type: 'summary_text', text: 'Hm', signature: 'c2ln' },
    { type: 'summary_encrypted_text', data: 'c2VjcmV0' },
  ],
}

type Row = [what: string, events: string[], expected: object]

const STREAMS: Row[] = [
  [
    'OpenRouter: comments while it waits, a native reason beside its own, usage with a choice',
    [
      ': OPENROUTER PROCESSING\n\n',
      delta({ role: 'assistant', content: '', reasoning: null }),
      ': OPENROUTER PROCESSING\n\n',
      delta({ content: 'Hello' }, { native_finish_reason: null }),
      delta({ content: '' }, { finish_reason: 'stop', native_finish_reason: 'completed' }),
      frame({ choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }], usage }),
      DONE,
    ],
    counted,
  ],
  [
    'OpenRouter: an error in the middle, beside a choice that says it, and [DONE]',
    [
      delta({ content: 'Hel' }),
      frame({
        error: { code: 502, message: 'Provider disconnected', metadata: { provider_name: 'X' } },
        choices: [{ index: 0, delta: { content: '' }, finish_reason: 'error' }],
      }),
      DONE,
    ],
    { reason: 'server_error', outcome: 'error' },
  ],
  [
    'DeepSeek: comments to keep alive, reasoning first, null for what is not there',
    [
      ': keep-alive\n\n',
      delta({ role: 'assistant', content: null, reasoning_content: 'Hm' }, { logprobs: null }),
      delta({ content: 'Hello', reasoning_content: null }, { logprobs: null }),
      frame({ choices: [{ index: 0, delta: { content: '', reasoning_content: null }, finish_reason: 'stop' }], usage }),
      DONE,
    ],
    { ...counted, reasoning: 'Hm' },
  ],
  [
    'DeepSeek: no more resources is no answer',
    [delta({ content: 'Hel' }), end('insufficient_system_resource'), DONE],
    { reason: 'server_error' },
  ],
  [
    'Groq: usage in x_groq',
    [delta({ content: 'Hello' }), end('stop', { x_groq: { id: 'req_1', usage } }), DONE],
    counted,
  ],
  [
    'Groq: why it stopped, in x_groq',
    [delta({ content: 'Hel' }), frame({ choices: [], x_groq: { id: 'req_1', error: 'over_capacity' } }), DONE],
    { reason: 'server_error', outcome: 'error' },
  ],
  [
    'Groq: a call that its model wrote wrongly is not the fault of the caller',
    [
      'event: error\ndata: {"error":{"message":"Failed to call a function.","type":"invalid_request_error",' +
        '"code":"tool_use_failed","failed_generation":"<function"},"status_code":400}\n\n',
    ],
    { reason: 'server_error' },
  ],
  [
    'Mistral: thinking and citations among the content',
    [
      delta({ content: [{ type: 'thinking', thinking: [{ type: 'text', text: 'Hm' }], closed: true }] }),
      delta({
        content: [
          { type: 'text', text: 'Hel' },
          { type: 'reference', reference_ids: [1] },
        ],
      }),
      delta({ content: [{ type: 'tool_reference', tool: 'web_search', title: 'x' }] }),
      delta({ content: 'lo' }, { finish_reason: 'stop' }),
      DONE,
    ],
    { ...answered, reasoning: 'Hm' },
  ],
  ['Mistral: the limit of the model', [delta({ content: 'Hello' }), end('model_length'), DONE], { outcome: 'length' }],
  [
    'Mistral: an error object of its own',
    [frame({ object: 'error', message: 'Service tier capacity exceeded', type: 'service_tier', code: '3505' })],
    { reason: 'server_error' },
  ],
  [
    'Together: eos, with a choice that has text and tokens too',
    [
      frame({ choices: [{ index: 0, text: 'Hello', delta: { token_id: 1, content: 'Hello' }, finish_reason: null }] }),
      frame({ choices: [{ index: 0, text: '', delta: { token_id: 2, content: '' }, finish_reason: 'eos' }], usage }),
      DONE,
    ],
    { ...counted, nativeFinishReason: 'eos' },
  ],
  [
    'Fireworks: usage in the last chunk, with its reason',
    [delta({ content: 'Hello' }), end('stop', { usage }), DONE],
    counted,
  ],
  [
    'Cerebras: a status beside the error',
    [
      delta({ content: 'Hel' }),
      'data: {"status_code":429,"error":{"message":"Too many","type":"too_many_requests_error","code":"request_quota_exceeded"}}\n\n',
    ],
    { reason: 'rate_limit' },
  ],
  [
    'xAI: an empty reason until there is one, usage in every chunk, reasoning beside the completion',
    [
      delta({ reasoning_content: 'Hm' }, { finish_reason: '' }),
      frame({ choices: [{ index: 0, delta: { content: 'Hello' }, finish_reason: '' }], usage: { prompt_tokens: 9 } }),
      end('stop'),
      frame({
        choices: [],
        usage: { ...usage, total_tokens: 32, completion_tokens_details: { reasoning_tokens: 20 } },
        citations: ['https://example.com'],
      }),
      DONE,
    ],
    { ...answered, reasoning: 'Hm', usage: { inputTokens: 9, outputTokens: 23, reasoningTokens: 20 } },
  ],
  [
    'Azure: results of its filter first, without a choice, and after the end, without a delta',
    [
      frame({ choices: [], prompt_filter_results: [{ prompt_index: 0, content_filter_results: {} }] }),
      delta({ content: 'Hello', refusal: null }, { content_filter_results: { hate: { filtered: false } } }),
      end('stop'),
      frame({
        choices: [
          {
            index: 0,
            finish_reason: null,
            content_filter_offsets: { check_offset: 0 },
            content_filter_results: { error: { code: 'content_filter_error', message: 'x' } },
          },
        ],
      }),
      DONE,
    ],
    answered,
  ],
  [
    'Azure: what it held back in the middle',
    [delta({ content: 'Hel' }), end('content_filter', { usage }), DONE],
    { outcome: 'filtered', text: 'Hel' },
  ],
  [
    'vLLM: reasoning under both names, usage in every chunk',
    [
      delta({ reasoning_content: 'Hm', reasoning: 'Hm' }),
      frame({
        choices: [{ index: 0, delta: { content: 'Hello' } }],
        usage: { prompt_tokens: 9, completion_tokens: 1 },
      }),
      end('stop', { usage }),
      DONE,
    ],
    { ...counted, reasoning: 'Hm' },
  ],
  ['vLLM: an aborted answer is none', [delta({ content: 'Hel' }), end('abort'), DONE], { reason: 'server_error' }],
  [
    'vLLM: a bare error',
    [delta({ content: 'Hel' }), 'data: {"object":"error","message":"x","type":"InternalServerError","code":500}\n\n'],
    { reason: 'server_error' },
  ],
  [
    'llama.cpp: an error in a field that is no data',
    [delta({ content: 'Hel' }), 'error: {"code":500,"message":"slot unavailable"}\n\n'],
    { reason: 'server_error', outcome: 'error' },
  ],
  [
    'TGI: an error that is a text',
    [delta({ content: 'Hel' }), 'data: {"error":"Request failed during generation","error_type":"generation"}\n\n'],
    { reason: 'server_error' },
  ],
  [
    'Moonshot: usage within the choice',
    [delta({ content: 'Hello' }), frame({ choices: [{ index: 0, delta: {}, finish_reason: 'stop', usage }] }), DONE],
    counted,
  ],
  [
    'Z.ai: a network of its own that broke is no answer',
    [delta({ content: 'Hel' }), end('network_error'), DONE],
    { reason: 'server_error' },
  ],
  [
    'Alibaba: an answer that its inspection stops',
    [delta({ content: 'Hel' }), 'data: {"error":{"code":"data_inspection_failed","message":"x"}}\n\n'],
    { reason: 'content_filter' },
  ],
  [
    'Google: filtered, with what for',
    [delta({ content: 'Hel' }), end('content_filter: RECITATION'), DONE],
    { outcome: 'filtered', nativeFinishReason: 'content_filter: RECITATION' },
  ],
  [
    'Google: a call that it could not read is no answer',
    [end('function_call_filter: MALFORMED_FUNCTION_CALL'), DONE],
    { reason: 'server_error' },
  ],
  ['words of Anthropic, passed on', [delta({ content: 'Hello' }), end('end_turn'), DONE], answered],
  ['words of Google, passed on', [delta({ content: 'Hello' }), end('MAX_TOKENS'), DONE], { outcome: 'length' }],
  [
    'GLM and Kimi: one newline between events, and none after the last',
    [lines([delta({ content: 'Hel' }), delta({ content: 'lo' }), end('stop', { usage }), DONE])],
    counted,
  ],
  [
    'Cloudflare: pieces that are numbers',
    [
      delta({ reasoning_content: 3 }),
      delta({ content: 'Hello' }),
      delta({ content: 6 }),
      delta({ content: 0.5 }),
      end('stop'),
      DONE,
    ],
    { text: 'Hello60.5', reasoning: '3', outcome: 'complete' },
  ],
  [
    'MiniMax: all of it again in the last chunk, without a delta',
    [
      delta({ content: 'Hel' }),
      delta({ content: 'lo' }),
      frame({
        object: 'chat.completion',
        choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'Hello' } }],
        usage,
      }),
    ],
    counted,
  ],
  [
    'Databricks: reasoning among the content',
    [
      delta({ content: [databricksReasoning] }),
      delta({ content: [{ type: 'text', text: 'Hello' }] }),
      end('stop'),
      DONE,
    ],
    { ...answered, reasoning: 'Hm' },
  ],
  [
    'heartbeats in the place of data',
    [delta({ content: 'Hel' }), 'data: : keepalive\n\n', delta({ content: 'lo' }), 'data::\n\n', end('stop'), DONE],
    answered,
  ],
  [
    'usage without the tokens of the answer, but with all of them',
    [delta({ content: 'Hello' }), end('stop', { usage: { prompt_tokens: 9, total_tokens: 58 } }), DONE],
    { ...answered, usage: { inputTokens: 9, outputTokens: 49 } },
  ],
  [
    'an error in members of its own, without choices',
    [
      delta({ content: 'Hel' }),
      frame({ choices: null, error_type: 'invalid_request_error', error_message: 'temperature is out of range' }),
    ],
    { reason: 'bad_request', outcome: 'error' },
  ],
  [
    'an error of the context in members of its own',
    [frame({ choices: null, error_type: 'value_error', error_message: 'The prompt is too long' })],
    { reason: 'context_length' },
  ],
  [
    'an error that is a detail',
    [delta({ content: 'Hel' }), 'data: {"detail":"Rate limit exceeded"}\n\n'],
    { reason: 'rate_limit', outcome: 'error' },
  ],
  ['words of the filters of Google', [delta({ content: 'Hel' }), end('RECITATION'), DONE], { outcome: 'filtered' }],
  ['the same in small letters', [delta({ content: 'Hel' }), end('prohibited_content'), DONE], { outcome: 'filtered' }],
  [
    'reasoning in a shape of its own',
    [delta({ content: 'Hello', reasoning: { summary: 'Hm' } }), end('stop'), DONE],
    { ...answered, reasoning: '' },
  ],
  [
    'an empty reasoning_content beside a reasoning',
    [delta({ content: 'Hello', reasoning_content: '', reasoning: 'Hm' }), end('stop'), DONE],
    { ...answered, reasoning: 'Hm' },
  ],
]

const fullMessage = (content: string) => frame({ choices: [{ index: 0, message: { content }, finish_reason: 'stop' }] })
const lost = { reason: 'server_error', outcome: 'error' }
const halves = [
  { index: 0, delta: { content: 'Hel' }, finish_reason: null },
  { delta: { content: 'lo' }, finish_reason: 'length' },
]

const emptyDelta = frame({ choices: [{ index: 0, delta: [], finish_reason: 'stop' }] })
const answeredHel = { text: 'Hel', outcome: 'complete' }

const DEVIANT: Row[] = [
  [
    'a stop after the limit of tokens',
    [delta({ content: 'Hello' }), end('length'), end('stop'), DONE],
    { outcome: 'length', nativeFinishReason: 'length' },
  ],
  [
    'a stop after a filter',
    [delta({ content: 'Hello' }), end('content_filter'), end('stop'), DONE],
    { outcome: 'filtered' },
  ],
  ['a limit after a stop', [delta({ content: 'Hello' }), end('stop'), end('length'), DONE], { outcome: 'length' }],
  [
    'a limit that is taken back by more text',
    [delta({ content: 'Hel' }, { finish_reason: 'length' }), delta({ content: 'lo' }), end('stop'), DONE],
    answered,
  ],
  ['all of it in one message', [fullMessage('Hello'), DONE], answered],
  ['a message after its deltas', [delta({ content: 'Hel' }), fullMessage('Hello'), DONE], lost],
  ['a shorter message after its deltas', [delta({ content: 'Hello' }), fullMessage('Hel'), DONE], lost],
  ['a message that ends otherwise', [delta({ content: 'Hel' }), delta({ content: 'lo' }), fullMessage('Helms')], lost],
  [
    'all of it again, with a call that is nowhere else',
    [
      delta({ content: 'Hello' }),
      frame({
        choices: [{ index: 0, message: { content: 'Hello', tool_calls: [call('find', '{}')] }, finish_reason: 'stop' }],
      }),
    ],
    lost,
  ],
  ['a number that has lost digits', [delta({ content: 12345678901234567000 }), end('stop'), DONE], lost],
  ['a delta and an error that are empty lists', [frame({ error: [], choices: [halves[0]] }), emptyDelta], answeredHel],
  ['a delta that is a list', [frame({ choices: [{ index: 0, delta: ['Hello'], finish_reason: 'stop' }] })], lost],
  [
    'one newline between events, the last of which is cut',
    [`${lines([delta({ content: 'Hel' }), delta({ content: 'lo' })]).slice(0, -9)}`],
    { outcome: 'truncated' },
  ],
  [
    'one newline between events, the usage of which is cut after the end',
    [lines([delta({ content: 'Hello' }), end('stop'), frame({ choices: [], usage })]).slice(0, -9)],
    { ...answered, usage: null },
  ],
  [
    'one newline between events, of which one is not JSON',
    [lines([delta({ content: 'Hel' }), 'data: lost\n\n', end('stop'), DONE])],
    lost,
  ],
  [
    'one newline between some events, and a blank line between others',
    [`${lines([delta({ content: 'Hel' }), delta({ content: 'lo' })])}\n\n`, end('length'), DONE],
    { text: 'Hello', outcome: 'length' },
  ],
  [
    'one newline between ends, of which the first is the worse',
    [lines([delta({ content: 'Hello' }), end('length'), end('stop'), DONE])],
    { text: 'Hello', outcome: 'length' },
  ],
  [
    'the message so far beside every delta',
    [
      delta({ content: 'Hel' }, { message: { content: 'Hel' } }),
      delta({ content: 'lo' }, { message: { content: 'Hello' } }),
      delta({ content: '' }, { message: { content: 'Hello' }, finish_reason: 'stop' }),
    ],
    answered,
  ],
  ['text as before chat', [frame({ choices: [{ index: 0, text: 'Hello', finish_reason: 'stop' }] }), DONE], lost],
  ['a delta that is a text', [frame({ choices: [{ index: 0, delta: 'Hello', finish_reason: 'stop' }] }), DONE], lost],
  [
    'choices that are an object',
    [frame({ choices: { index: 0, delta: { content: 'Hello' } } }), end('stop'), DONE],
    lost,
  ],
  [
    'an index that is a text',
    [frame({ choices: [{ index: '0', delta: { content: 'Hello' } }] }), end('stop'), DONE],
    lost,
  ],
  ['two choices of the same index', [frame({ choices: halves }), DONE], { text: 'Hello', outcome: 'length' }],
  [
    'an error without its field',
    [delta({ content: 'Hel' }), '{"error":{"code":429}}\n\n', end('stop'), DONE],
    { reason: 'rate_limit' },
  ],
  [
    'text in a line with a blank before it',
    [delta({ content: 'Hel' }), ` ${delta({ content: 'lo' })}`, end('stop'), DONE],
    lost,
  ],
  [
    'text in a line with a byte order mark',
    [delta({ content: 'Hel' }), `\ufeff${delta({ content: 'lo' })}`, end('stop'), DONE],
    lost,
  ],
  [
    'JSON without a field',
    [delta({ content: 'Hel' }), `${delta({ content: 'lo' }).slice(6)}`, end('stop'), DONE],
    lost,
  ],
  ['an error in a list', ['data: [{"error":{"code":429,"message":"x"}}]\n\n'], { reason: 'rate_limit' }],
  [
    'an empty error in good pieces',
    [frame({ error: '', choices: [halves[0]] }), frame({ error: {}, choices: [halves[1]] })],
    { text: 'Hello' },
  ],
  ['words of Cohere, passed on', [delta({ content: 'Hello' }), end('COMPLETE'), DONE], answered],
  ['the limit in the words of Cohere', [delta({ content: 'Hello' }), end('MAX_TOKEN'), DONE], { outcome: 'length' }],
  ['no reason, written out', [delta({ content: 'Hello' }, { finish_reason: 'null' }), DONE], { outcome: 'truncated' }],
]

describe('a stream that violates the format', () => {
  test.each(DEVIANT)('%s', (_what, events, expected) => {
    const body = Buffer.from(events.join(''))
    const whole = playStream([body])
    expect(whole).toMatchObject(expected)
    const cuts = Array.from(body.keys()).filter(
      (at) => JSON.stringify(playStream(splitAt(body, [at]))) !== JSON.stringify(whole),
    )
    expect(cuts).toEqual([])
  })
})

describe('a stream in the format of real servers', () => {
  test.each(STREAMS)('%s', (_what, events, expected) => {
    const body = Buffer.from(events.join(''))
    const whole = playStream([body])
    expect(whole).toMatchObject(expected)
    const cuts = Array.from(body.keys()).filter(
      (at) => JSON.stringify(playStream(splitAt(body, [at]))) !== JSON.stringify(whole),
    )
    expect(cuts).toEqual([])
  })
})

const CALLS: [what: string, pieces: object[][], expected: object[]][] = [
  [
    'whole, each under the same index and without an id',
    [[call('find', '{"q":1}', { index: 0, id: '' })], [call('find', '{"q":2}', { index: 0, id: '' })]],
    [{ arguments: '{"q":1}' }, { arguments: '{"q":2}' }],
  ],
  [
    'whole, without index and id, as two of one list',
    [[call('find', '{"q":1}'), call('look', '{}')]],
    [{ name: 'find' }, { name: 'look' }],
  ],
  [
    'in pieces that all repeat the name and have no id',
    [[call('find', '{"q":', { index: 0 })], [call('find', '{"a":1}', { index: 0 })], [call('find', '}', { index: 0 })]],
    [{ name: 'find', arguments: '{"q":{"a":1}}' }],
  ],
  [
    "with the id of others' pieces as the text null",
    [[call('find', '{"q":', { index: 0, id: 'abc' })], [{ index: 0, id: null, function: { arguments: '1}' } }]],
    [{ id: 'abc', name: 'find', arguments: '{"q":1}' }],
  ],
  [
    'in turn, without index, each piece with its id',
    [
      [call('find', '{"q":', { id: 'a' })],
      [call('look', '{"r":', { id: 'b' })],
      [{ id: 'a', function: { arguments: '1}' } }],
      [{ id: 'b', function: { arguments: '2}' } }],
    ],
    [
      { id: 'a', name: 'find', arguments: '{"q":1}' },
      { id: 'b', name: 'look', arguments: '{"r":2}' },
    ],
  ],
  [
    'without index and id, the first without arguments',
    [[call('find', '')], [call('look', '{}')]],
    [
      { name: 'find', arguments: '' },
      { name: 'look', arguments: '{}' },
    ],
  ],
  [
    'whose arguments are repeated at the end',
    [
      [call('find', '{"q":', { index: 0, id: 'a' })],
      [call('', '1}', { index: 0 })],
      [call('', '{"q":1}', { index: 0 })],
    ],
    [{ name: 'find', arguments: '{"q":1}' }],
  ],
  [
    'without parameters, whose arguments are null written out',
    [[call('find', 'null', { index: 0, id: 'a' })], [call('look', 'null', { index: 1, id: 'b' })]],
    [
      { id: 'a', name: 'find', arguments: '{}' },
      { id: 'b', name: 'look', arguments: '{}' },
    ],
  ],
  [
    'with a null among their arguments',
    [[call('find', '{"q":', { index: 0, id: 'a' })], [call('', 'null', { index: 0 })], [call('', '}', { index: 0 })]],
    [{ arguments: '{"q":null}' }],
  ],
  [
    'with a placeholder before their arguments',
    [
      [call('find', '{}', { index: 0, id: 'a' })],
      [call('', '', { index: 0 })],
      [call('', '{"x":', { index: 0 })],
      [call('', '1}', { index: 0 })],
      [call('look', '', { index: 1, id: 'b' })],
      [call('', 'null', { index: 1 })],
      [call('', '{"y":{}}', { index: 1 })],
    ],
    [
      { id: 'a', name: 'find', arguments: '{"x":1}' },
      { id: 'b', name: 'look', arguments: '{"y":{}}' },
    ],
  ],
  [
    'with a placeholder before their name',
    [[{ index: 0, id: 'a', function: { arguments: '{}' } }], [call('find', '{"x":1}', { index: 0 })]],
    [{ arguments: '{"x":1}' }],
  ],
  [
    'with a placeholder in one piece with their arguments',
    [[call('find', '{}{"x":1}', { index: 0, id: 'a' })]],
    [{ arguments: '{"x":1}' }],
  ],
  [
    'whose empty arguments are repeated at the end',
    [[call('find', '{}', { index: 0, id: 'a' })], [call('', '{}', { index: 0 })]],
    [{ arguments: '{}' }],
  ],
  [
    'that begin with null in the place of a function',
    [
      [{ id: '4189fdfaG', index: 0, type: 'function', function: null }],
      [{ index: 0, function: null }],
      [call('find', '{"q":', { index: 0, id: null })],
      [{ index: 0, function: null }],
      [call('', '1}', { index: 0, id: null })],
    ],
    [{ id: '4189fdfaG', name: 'find', arguments: '{"q":1}' }],
  ],
  [
    'that begin with nothing but an id',
    [[{ index: 0, id: 'a', type: 'function' }], [call('find', '{}', { index: 0 })]],
    [{ id: 'a', name: 'find', arguments: '{}' }],
  ],
]

test('a single call instead of a list is accepted', () => {
  const body = delta({ tool_calls: call('find', '{}', { index: 0, id: 'a' }) }) + end('tool_calls') + DONE
  expect(playStream([Buffer.from(body)], { tools: true })).toMatchObject({ toolCalls: [{ id: 'a', name: 'find' }] })
})

const BROKEN_CALLS: [what: string, events: string[], expected: object][] = [
  [
    'text and the end of a call without the call',
    [delta({ content: 'Hello' }), end('tool_calls'), DONE],
    { reason: 'server_error', outcome: 'error' },
  ],
  [
    'arguments that break off',
    [delta({ tool_calls: [call('find', '{"ci', { index: 0, id: 'a' })] }), end('tool_calls'), DONE],
    { reason: 'server_error', outcome: 'truncated' },
  ],
  [
    'arguments after a placeholder that break off',
    [delta({ tool_calls: [call('find', '{}{"ci', { index: 0, id: 'a' })] }), end('tool_calls'), DONE],
    { reason: 'server_error', outcome: 'truncated' },
  ],
  [
    'arguments that are null and more',
    [
      delta({ tool_calls: [call('find', 'null', { index: 0, id: 'a' })] }),
      delta({ tool_calls: [call('', '1', { index: 0 })] }),
      end('tool_calls'),
      DONE,
    ],
    { reason: 'server_error', outcome: 'truncated' },
  ],
  [
    'a name in pieces',
    [
      delta({ tool_calls: [call('get_', '', { index: 0, id: 'a' })] }),
      delta({ tool_calls: [call('weather', '{}', { index: 0 })] }),
      end('tool_calls'),
      DONE,
    ],
    { reason: 'server_error', outcome: 'error' },
  ],
]

test('empty arguments are passed before the next content, or else before the end', () => {
  const tools = [{ name: 'find' }]
  const empty = delta({ tool_calls: [call('find', '{}', { index: 0, id: 'a' })] })
  const read = (...events: string[]) => readStream([Buffer.from(events.join(''))], formatFor({ tools }))
  const begun = { type: 'tool_call', index: 0, id: 'a', name: 'find', arguments: '' }
  const whole = { type: 'tool_call', index: 0, arguments: '{}' }
  const ended = { type: 'end', outcome: 'complete', nativeFinishReason: 'tool_calls', usage: undefined }
  expect(read(empty, end('tool_calls'), DONE)).toEqual([begun, whole, ended])
  // The texts before the call have established the usual chunk.
  const text = delta({ content: 'Hello' })
  const said = { type: 'text', text: 'Hello' }
  expect(read(text, text, empty, text, text, end('tool_calls'))).toEqual([said, said, begun, whole, said, said, ended])
})

test('a finish reason on every chunk does not end arguments that may follow a placeholder', () => {
  const chunk = (text: string) => delta({ tool_calls: [call('', text, { index: 0 })] }, { finish_reason: 'tool_calls' })
  const first = delta({ tool_calls: [call('find', '', { index: 0, id: 'a' })] }, { finish_reason: 'tool_calls' })
  const assembly = assembleAnswer(formatFor({ tools: [{ name: 'find' }] }))
  assembly.take(Buffer.from(first + chunk('{}')))
  expect(assembly.state()).toBe('open')
  const parts = [...assembly.take(Buffer.from(chunk('{"x":1}') + DONE))]
  expect(parts[0]).toEqual({ type: 'tool_call', index: 0, arguments: '{"x":1}' })
})

test.each(BROKEN_CALLS)('%s make the answer fail', (_what, events, expected) => {
  expect(playStream([Buffer.from(events.join(''))], { tools: true })).toMatchObject(expected)
})

test('arguments cut by the token limit are an answer with that reason', () => {
  const body = delta({ tool_calls: [call('find', '{"ci', { index: 0, id: 'a' })] }) + end('length') + DONE
  expect(playStream([Buffer.from(body)], { tools: true })).toMatchObject({ outcome: 'length' })
})

test.each(CALLS)('tool calls %s', (_what, pieces, expected) => {
  const events = [...pieces.map((some) => delta({ tool_calls: some })), end('tool_calls'), DONE]
  expect(playStream([Buffer.from(events.join(''))], { tools: true })).toMatchObject({
    outcome: 'complete',
    toolCalls: expected,
  })
})

const BODIES: [what: string, body: string, expected: object][] = [
  [
    'OpenRouter: blank lines while it waits',
    `\n\n         \n${JSON.stringify({ choices: [{ index: 0, message: { content: 'Hello' }, finish_reason: 'stop' }], usage })}`,
    counted,
  ],
  [
    'OpenRouter: an error with status 200',
    JSON.stringify({ error: { code: 429, message: 'Rate limited upstream' } }),
    { reason: 'rate_limit' },
  ],
  [
    'xAI: an error that is a text beside its code',
    JSON.stringify({ code: 'Some resource has been exhausted', error: 'x' }),
    { reason: 'server_error' },
  ],
  [
    'Mistral: thinking among the content',
    JSON.stringify({
      choices: [
        {
          index: 0,
          message: {
            content: [
              { type: 'thinking', thinking: [{ type: 'text', text: 'Hm' }] },
              { type: 'text', text: 'Hello' },
            ],
          },
          finish_reason: 'stop',
        },
      ],
      usage,
    }),
    { ...counted, reasoning: 'Hm' },
  ],
  [
    'an answer that is cut in two choices',
    JSON.stringify({
      choices: [
        { index: 0, message: { content: 'Hel' }, finish_reason: 'length' },
        { index: 0, message: { content: 'lo' }, finish_reason: 'stop' },
      ],
      usage,
    }),
    { text: 'Hello', outcome: 'length' },
  ],
  [
    'Databricks: reasoning among the content',
    JSON.stringify({
      choices: [
        {
          index: 0,
          message: { content: [databricksReasoning, { type: 'text', text: 'Hello' }] },
          finish_reason: 'stop',
        },
      ],
      usage,
    }),
    { ...counted, reasoning: 'Hm' },
  ],
  [
    'Cloudflare: a number',
    JSON.stringify({ choices: [{ index: 0, message: { content: 6, reasoning: 0 }, finish_reason: 'stop' }] }),
    { text: '6', reasoning: '0', outcome: 'complete' },
  ],
  [
    'Google: no message where thinking took all tokens',
    JSON.stringify({ choices: [{ index: 0, finish_reason: 'length' }], usage: { prompt_tokens: 9, total_tokens: 58 } }),
    { text: '', outcome: 'length', usage: { inputTokens: 9, outputTokens: 49 } },
  ],
  [
    'Google: no message where all of it was filtered',
    JSON.stringify({ choices: [{ index: 0, message: null, finish_reason: 'content_filter: SAFETY' }] }),
    { text: '', outcome: 'filtered' },
  ],
  [
    'words in another place than a message',
    JSON.stringify({ choices: [{ index: 0, delta: { content: 'Hel' }, finish_reason: 'length' }] }),
    { reason: 'server_error', outcome: 'error' },
  ],
  [
    'words as before chat, that the limit cuts',
    JSON.stringify({ choices: [{ index: 0, text: 'Hel', finish_reason: 'length' }] }),
    { reason: 'server_error', outcome: 'error' },
  ],
  [
    'all tokens, and those of the answer',
    JSON.stringify({
      choices: [{ index: 0, message: { content: 'Hello' }, finish_reason: 'stop' }],
      usage: { completion_tokens: 3, total_tokens: 12 },
    }),
    counted,
  ],
  [
    'tokens that do not add up',
    JSON.stringify({
      choices: [{ index: 0, message: { content: 'Hello' }, finish_reason: 'stop' }],
      usage: { completion_tokens: 30, total_tokens: 12 },
    }),
    { ...answered, usage: null },
  ],
  ['an error that is a detail', JSON.stringify({ detail: 'Prompt is too long' }), { reason: 'context_length' }],
  ['an error in a list', JSON.stringify([{ error: { code: 429, message: 'x' } }]), { reason: 'rate_limit' }],
  [
    'MiniMax: a failure in a member of its own, without an answer',
    JSON.stringify({ choices: null, base_resp: { status_code: 1008, status_msg: 'insufficient balance' } }),
    { reason: 'server_error' },
  ],
]

test.each([
  ['null written out', 'null', '{}'],
  ['a placeholder before them', '{}{"x":1}', '{"x":1}'],
])('arguments in a complete answer: %s', (_what, text, expected) => {
  const message = { content: null, tool_calls: [call('find', text, { id: 'a' }), call('look', '{}', { id: 'b' })] }
  const body = JSON.stringify({ choices: [{ index: 0, message, finish_reason: 'tool_calls' }] })
  expect(playBody(Buffer.from(body), { tools: true })).toMatchObject({
    toolCalls: [
      { id: 'a', name: 'find', arguments: expected },
      { id: 'b', name: 'look', arguments: '{}' },
    ],
  })
})

test.each(BODIES)('a complete answer in the format of real servers: %s', (_what, body, expected) => {
  expect(playBody(Buffer.from(body))).toMatchObject(expected)
})
