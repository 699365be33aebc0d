import { both, type Case, type Expected, type Fault } from './fault.ts'
import { choice, completion, counted, DONE, event, finish, json, reply, stream, usage, word } from './plays.ts'

const failed: Expected = { fails: 'server_error' }
const cut: Expected = { fails: 'connection_error' }
const answers: Expected = { answers: 'one two' }
const breaks: Expected = { breaks: 'server_error', after: 'one ', outcome: 'error' }
const truncates: Expected = { breaks: 'connection_error', after: 'one ', outcome: 'truncated' }

const streamed = (pieces: readonly (string | Uint8Array)[], expected: Expected): Case => ({
  play: stream(pieces),
  expected,
})
const whole = (body: string | Uint8Array, expected: Expected, type = 'application/json'): Case => ({
  play: reply(200, body, { 'content-type': type }),
  expected,
})

const said = [word('one '), word('two')]
const events = [...said, finish('stop'), counted, DONE]
const body = completion('one two')
const error = { error: { message: 'secret detail', type: 'server_error' } }
const limit = { error: { message: 'secret detail', code: 'rate_limit_exceeded' } }
const call = { index: 0, id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } }

const reportedErrors: Fault[] = [
  both('an error as the answer', json(error), failed),
  both('a rate limit as the answer', json(limit), { fails: 'rate_limit' }),
  both('an error that is only a text', json({ error: 'overloaded' }), failed),
  both('the length of the prompt as the answer', json({ error: { message: 'x', code: 'context_length_exceeded' } }), {
    refuses: 'context_length',
  }),
  { name: 'an error as the first event', streamed: streamed([event(error)], failed) },
  { name: 'an event that is named error', streamed: streamed([`event: error\n${event({ message: 'x' })}`], failed) },
  { name: 'a rate limit as the first event', streamed: streamed([event(limit)], { fails: 'rate_limit' }) },
  { name: 'an error after an empty delta', streamed: streamed([word(''), event(error)], failed) },
  { name: 'an error after a word', streamed: streamed([word('one '), event(error)], breaks) },
  { name: 'an error in one read with a word', streamed: streamed([word('one ') + event(error)], breaks) },
  {
    name: 'a rate limit after a word',
    streamed: streamed([word('one '), event(limit)], { breaks: 'rate_limit', after: 'one ', outcome: 'error' }),
  },
  { name: 'an error and then [DONE]', streamed: streamed([word('one '), event(error), DONE], breaks) },
  {
    name: 'an error within the choice',
    streamed: streamed([word('one '), choice({ ...error, finish_reason: 'stop', delta: {} })], breaks),
    whole: whole(JSON.stringify({ choices: [{ index: 0, ...error, finish_reason: 'stop' }] }), failed),
  },
  {
    name: 'an error beside a good answer',
    streamed: streamed([word('one '), finish('stop').replace('{', '{"error":{"message":"x"},')], breaks),
    whole: whole(body.replace('{', '{"error":{"message":"x"},'), failed),
  },
]

const unknownEnd = (reason: string): Fault => ({
  name: `the finish reason "${reason}"`,
  streamed: streamed([word('one '), finish(reason), DONE], breaks),
  whole: whole(completion('one two', { finishReason: reason }), failed),
})
const knownEnd = (reason: string, expected: Expected): Fault => ({
  name: `the finish reason "${reason}"`,
  streamed: streamed([...said, finish(reason), DONE], expected),
  whole: whole(completion('one two', { finishReason: reason }), expected),
})

const endings: Fault[] = [
  ...['error', 'unknown', 'cancelled', 'MALFORMED_FUNCTION_CALL', 'abort'].map(unknownEnd),
  knownEnd('length', { answers: 'one two', finish: 'length' }),
  knownEnd('content_filter', { answers: 'one two', finish: 'content_filter' }),
  knownEnd('eos', answers),
  {
    name: 'no finish reason',
    streamed: streamed([word('one '), DONE], truncates),
    whole: whole(completion('one two', { finishReason: null }), cut),
  },
  {
    name: 'an empty finish reason',
    streamed: streamed([word('one '), finish(''), DONE], truncates),
    whole: whole(completion('one two', { finishReason: '' }), cut),
  },
  {
    name: 'a finish reason that is taken back',
    streamed: streamed([finish('stop'), word('one '), DONE], truncates),
  },
  { name: 'no [DONE]', streamed: streamed([...said, finish('stop'), counted], answers) },
  { name: 'no end at all', streamed: streamed([word('one ')], truncates) },
  {
    name: 'a better end after a worse one',
    streamed: streamed([...said, finish('length'), finish('stop'), DONE], { answers: 'one two', finish: 'length' }),
  },
  {
    name: 'a finish reason with words, and then a reset',
    streamed: {
      play: stream([choice({ delta: { content: 'one ' }, finish_reason: 'stop' })], 'reset'),
      expected: truncates,
    },
  },
  {
    name: 'a finish reason with words, and then silence',
    streamed: {
      play: stream([choice({ delta: { content: 'one ' }, finish_reason: 'stop' })], 'silence'),
      expected: { breaks: 'timeout', after: 'one ', outcome: 'error' },
    },
  },
  {
    name: 'a finish reason with every word',
    streamed: streamed(
      ['one ', 'two'].map((content) => choice({ delta: { content }, finish_reason: 'stop' })),
      answers,
    ),
  },
  { name: 'the same end twice', streamed: streamed([...said, finish('stop'), finish('stop'), DONE], answers) },
  { name: 'words after [DONE]', streamed: streamed([...said, finish('stop'), DONE, word('three')], answers) },
  {
    name: 'a refusal',
    streamed: streamed([choice({ delta: { refusal: 'no' } }), finish('stop'), DONE], {
      answers: 'no',
      finish: 'content_filter',
    }),
    whole: whole(completion(null, { message: { refusal: 'no' } }), { answers: 'no', finish: 'content_filter' }),
  },
]

const shapes: Fault[] = [
  {
    name: 'an event that is not JSON',
    streamed: streamed([word('one '), 'data: hello\n\n', ...events], breaks),
    whole: whole('hello', failed),
  },
  {
    name: 'a first event that is not JSON',
    streamed: streamed(['data: {"choices": [\n\n', ...events], failed),
    whole: whole(body.slice(0, 40), failed),
  },
  {
    name: 'half an event at the end',
    streamed: streamed([word('one '), word('two').slice(0, 40)], truncates),
    whole: whole(body.slice(0, -3), failed),
  },
  {
    name: 'an event that is not an object',
    streamed: streamed([word('one '), 'data: 42\n\n'], breaks),
    whole: whole('42', failed),
  },
  {
    name: 'words outside of the delta',
    streamed: streamed([word('one '), choice({ message: { content: 'two' }, finish_reason: 'stop' }), DONE], breaks),
  },
  {
    name: 'two choices that are one answer',
    streamed: streamed(
      [event({ choices: ['one ', 'two'].map((content) => ({ index: 0, delta: { content } })) }), finish('stop'), DONE],
      answers,
    ),
  },
  {
    name: 'JSON in a line without a field',
    streamed: streamed([word('one '), word('two').slice(6), ...events], breaks),
  },
  {
    name: 'an error in a line without a field',
    streamed: streamed([word('one '), `${JSON.stringify(error)}\n\n`, finish('stop'), DONE], breaks),
  },
  {
    name: 'a rate limit as a body under the label of a stream',
    streamed: whole(JSON.stringify(limit), { fails: 'rate_limit' }, 'text/event-stream'),
  },
  {
    name: 'a stream under the label of JSON',
    streamed: { play: stream(events, 'end', { 'content-type': 'application/json' }), expected: answers },
  },
  { name: 'null', streamed: streamed(['data: null\n\n'], failed), whole: whole('null', failed) },
  { name: 'an empty answer', streamed: streamed([], cut), whole: whole('', failed) },
  { name: 'only [DONE]', streamed: streamed([DONE], cut) },
  { name: 'only pings', streamed: streamed([': ping\n\n', ': ping\n\n', 'data:\n\n'], cut) },
  { name: 'only a role', streamed: streamed([choice({ delta: { role: 'assistant' } }), DONE], cut) },
  { name: 'only a count of tokens', streamed: streamed([counted, DONE], cut), whole: whole(`{"usage":{}}`, failed) },
  {
    name: 'no choices',
    streamed: streamed([event({ choices: [] }), DONE], cut),
    whole: whole('{"choices":[]}', failed),
  },
  {
    name: 'choices that are no list',
    streamed: streamed([event({ choices: 'one' }), DONE], failed),
    whole: whole('{"choices":"one"}', failed),
  },
  {
    name: 'only another choice',
    streamed: streamed([event({ choices: [{ index: 3, delta: { content: 'x' }, finish_reason: 'stop' }] })], cut),
    whole: whole('{"choices":[{"index":3,"message":{"content":"x"},"finish_reason":"stop"}]}', failed),
  },
  {
    name: 'content of an unknown kind',
    streamed: streamed([word('one '), choice({ delta: { content: { text: 'x' } } })], breaks),
    whole: whole(body.replace('"one two"', '{"text":"x"}'), failed),
  },
  {
    name: 'no message',
    whole: whole('{"choices":[{"index":0,"finish_reason":"stop"}]}', failed),
  },
  {
    name: 'a page instead of an answer',
    streamed: { play: reply(200, '<html>secret detail</html>', { 'content-type': 'text/html' }), expected: cut },
    whole: whole('<html>secret detail</html>', failed, 'text/html'),
  },
  {
    name: 'an event stream that is called a page',
    streamed: { play: stream(events, 'end', { 'content-type': 'text/html' }), expected: answers },
    whole: whole(body, answers, 'text/html'),
  },
  { name: 'a whole answer to a streamed call', streamed: whole(body, answers) },
  { name: 'a stream as a whole answer', whole: { play: stream(events), expected: failed } },
  {
    name: 'a byte order mark',
    streamed: streamed([`\u{feff}${events.join('')}`], answers),
    whole: whole(`\u{feff}${body}`, answers),
  },
  { name: 'lines that end with CRLF', streamed: streamed([events.join('').replaceAll('\n', '\r\n')], answers) },
  { name: 'lines that end with CR', streamed: streamed([events.join('').replaceAll('\n', '\r')], answers) },
  {
    name: 'bytes that are not UTF-8',
    streamed: streamed([Buffer.from(word('\xff\xfe'), 'latin1'), finish('stop'), DONE], { answers: /^\ufffd+$/ }),
    whole: whole(Buffer.from(completion('\xff\xfe'), 'latin1'), { answers: /^\ufffd+$/ }),
  },
  {
    name: 'a hundred events in one read',
    streamed: streamed([word('z').repeat(100) + finish('stop') + DONE], { answers: 'z'.repeat(100) }),
  },
]

const tools: Fault[] = [
  {
    name: 'a tool call that nobody offered',
    streamed: streamed([choice({ delta: { tool_calls: [call] } }), finish('tool_calls'), DONE], failed),
    whole: whole(completion(null, { finishReason: 'tool_calls', message: { tool_calls: [call] } }), failed),
  },
  {
    name: 'the end of a tool call without the call',
    streamed: streamed([finish('tool_calls'), DONE], failed),
    whole: whole(completion(null, { finishReason: 'tool_calls' }), failed),
  },
  {
    name: 'a tool call of an unknown kind',
    streamed: streamed([word('one '), choice({ delta: { tool_calls: [{ index: 0, type: 'spell' }] } })], breaks),
    whole: whole(completion('one two', { message: { tool_calls: [{ type: 'spell' }] } }), failed),
  },
  {
    name: 'tool calls that are no list',
    streamed: streamed([word('one '), choice({ delta: { tool_calls: 'f' } })], breaks),
    whole: whole(completion('one two', { message: { tool_calls: 'f' } }), failed),
  },
]

const counts: Fault[] = [
  {
    name: 'a count of tokens that is no number',
    streamed: streamed([...said, finish('stop'), event({ choices: [], usage: { prompt_tokens: 'x' } }), DONE], answers),
    whole: whole(body.replace(String(usage.prompt_tokens), '"x"'), answers),
  },
  {
    name: 'a negative count of tokens',
    streamed: streamed(
      [...said, finish('stop'), event({ choices: [], usage: { prompt_tokens: -5, completion_tokens: -9 } }), DONE],
      answers,
    ),
    whole: whole(completion('one two', { usage: { prompt_tokens: -5, completion_tokens: -9 } }), answers),
  },
]

export const contentFaults: readonly Fault[] = [...reportedErrors, ...endings, ...shapes, ...tools, ...counts]
