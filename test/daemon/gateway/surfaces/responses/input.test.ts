import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { droppedFrom, nativeMembers } from '../../../../../src/daemon/gateway/surfaces/responses/dropped.ts'
import { toChatInput } from '../../../../../src/daemon/gateway/surfaces/responses/input.ts'
import { toTools } from '../../../../../src/daemon/gateway/surfaces/responses/tools.ts'
import { ResponsesRequest } from '../../../../../src/shared/wire/responses.ts'

const parse = (fields: object) => ResponsesRequest.parse({ model: 'p/m', input: 'Hi', ...fields })

function converted(fields: object) {
  const request = parse(fields)
  return toChatInput(request, toTools(request))
}

const messagesOf = (input: unknown) => converted({ input }).conversation.messages

describe('input', () => {
  test('a string is a message of the user; instructions are the system prompt', () => {
    expect(converted({ input: 'Hi', instructions: 'Be brief.' }).conversation).toEqual({
      system: 'Be brief.',
      messages: [{ role: 'user', content: 'Hi' }],
    })
  })

  test('instructions of all kinds are joined, in order', () => {
    const input = [
      { role: 'developer', content: 'Two.' },
      { role: 'user', content: 'Hi' },
      { type: 'message', role: 'system', content: [{ type: 'input_text', text: 'Three.' }] },
    ]
    expect(converted({ input, instructions: 'One.' }).conversation).toEqual({
      system: 'One.\n\nTwo.\n\nThree.',
      messages: [{ role: 'user', content: 'Hi' }],
    })
  })

  test('a reference to an item that is not stored is rejected', () => {
    expect(() => messagesOf([{ type: 'item_reference', id: 'msg_1_0' }])).toThrow("'msg_1_0' is not stored")
  })

  test('instructions alone are rejected', () => {
    expect(() => messagesOf([{ role: 'system', content: 'x' }])).toThrow('at least one item')
  })

  test('images and files are data URLs, https addresses, or files of the provider', () => {
    const user = (part: object) => [{ role: 'user', content: [part] }]
    expect(messagesOf(user({ type: 'input_image', image_url: 'data:image/png;base64,aGk=', detail: 'auto' }))).toEqual([
      { role: 'user', content: [{ type: 'image', mediaType: 'image/png', data: 'aGk=', detail: 'auto' }] },
    ])
    const url = 'https://example.org/a.pdf'
    const file_data = 'data:application/pdf;base64,aGk='
    const accepted = [
      { type: 'input_image', image_url: url, detail: 'high' },
      { type: 'input_image', file_id: 'file-1' },
      { type: 'input_file', filename: 'a.pdf', file_data },
      { type: 'input_file', file_url: url },
      { type: 'input_file', file_id: 'file-1' },
    ]
    expect(messagesOf([{ role: 'user', content: accepted }])[0]?.content).toEqual([
      { type: 'image_url', url, detail: 'high' },
      { type: 'native', origin: 'openai-responses', block: { ...accepted[1], detail: 'auto' } },
      { type: 'file', mediaType: 'application/pdf', data: 'aGk=', name: 'a.pdf' },
      { type: 'file_url', url },
      { type: 'native', origin: 'openai', block: { type: 'file', file: { file_id: 'file-1' } } },
    ])
    for (const [part, message] of [
      [{ type: 'input_image' }, 'must have an `image_url`'],
      [{ type: 'input_image', image_url: 'http://example.org/a.png' }, 'https URL'],
      [{ type: 'input_file', filename: 'a.pdf' }, 'exactly one'],
      [{ type: 'input_file', file_data, file_url: url }, 'exactly one'],
      [{ type: 'input_file', file_data: 'aGk=' }, 'data: URL'],
      [{ type: 'input_file', file_url: 'http://example.org/a.pdf' }, 'input'],
    ] as const) {
      expect(() => messagesOf(user(part))).toThrow(message)
    }
    const { uses, options } = converted({ input: [{ role: 'user', content: accepted }] })
    expect([uses, options?.native?.marks]).toEqual([{ addresses: true, serverTools: [] }, ['input[].content[].detail']])
  })

  test('the items of one turn of the model become one message', () => {
    const input = [
      { role: 'user', content: 'Hi' },
      { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'Hm.' }] },
      { type: 'message', id: 'msg_1', role: 'assistant', content: [{ type: 'output_text', text: 'I look.' }] },
      { type: 'function_call', id: 'fc_1', call_id: 'c1', name: 'look', arguments: '{"at":1}' },
      { type: 'custom_tool_call', call_id: 'c2', name: 'patch', input: 'a"b' },
      { type: 'function_call_output', call_id: 'c1', output: 'a lift' },
      { type: 'custom_tool_call_output', call_id: 'c2', output: [{ type: 'input_text', text: 'done' }] },
      { role: 'assistant', content: 'It is a lift.' },
    ]
    expect(messagesOf(input)).toEqual([
      { role: 'user', content: 'Hi' },
      {
        role: 'assistant',
        content: 'I look.',
        reasoning: [{ origin: 'p', text: 'Hm.' }],
        toolCalls: [
          { id: 'c1', name: 'look', arguments: '{"at":1}' },
          { id: 'c2', name: 'patch', arguments: '{"input":"a\\"b"}', isCustom: true },
        ],
      },
      { role: 'tool', toolCallId: 'c1', content: 'a lift' },
      { role: 'tool', toolCallId: 'c2', content: 'done' },
      { role: 'assistant', content: 'It is a lift.' },
    ])
  })

  test('reasoning after text begins a new message', () => {
    const input = [
      { role: 'assistant', content: 'One.' },
      { type: 'reasoning', summary: [{ type: 'summary_text', text: 'Hm.' }] },
      { role: 'assistant', content: [{ type: 'refusal', refusal: 'No.' }] },
    ]
    expect(messagesOf(input)).toEqual([
      { role: 'assistant', content: 'One.' },
      { role: 'assistant', content: 'No.', reasoning: [{ origin: 'p', text: 'Hm.' }] },
    ])
  })

  test("encrypted reasoning that is not the gateway's is OpenAI's", () => {
    const step = { type: 'reasoning', summary: [], encrypted_content: 'gAAAAA==' }
    expect(messagesOf([step])).toEqual([
      { role: 'assistant', content: '', reasoning: [{ origin: 'openai', text: '', data: 'gAAAAA==' }] },
    ])
    expect(() => messagesOf([{ ...step, encrypted_content: 'aigw.nonsense' }])).toThrow()
  })
})

describe('options', () => {
  const optionsOf = (fields: object) => converted(fields).options

  test('are absent from a plain request', () => {
    expect(optionsOf({})).toBeUndefined()
    expect(converted({}).maxTokens).toBeUndefined()
  })

  test('are converted', () => {
    const format = { type: 'json_schema', name: 'a', schema: { type: 'object' }, strict: true }
    expect(
      optionsOf({
        ...{ text: { format }, top_p: 0.5, reasoning: { effort: 'low' }, safety_identifier: 'u', top_logprobs: 2 },
        ...{ include: ['message.output_text.logprobs'], parallel_tool_calls: false },
      }),
    ).toEqual({
      responseFormat: format,
      topP: 0.5,
      reasoningEffort: 'low',
      user: 'u',
      logprobs: true,
      topLogprobs: 2,
      parallelToolCalls: false,
    })
  })

  const look = { type: 'function', name: 'look', description: 'Looks', parameters: { type: 'object' }, strict: true }

  test('a function keeps its form', () => {
    expect(optionsOf({ tools: [look], tool_choice: { type: 'function', name: 'look' } })).toMatchObject({
      tools: [{ name: 'look', description: 'Looks', parameters: { type: 'object' }, strict: true }],
      toolChoice: { name: 'look' },
    })
  })

  test('a custom tool has the parameters of a function with one text, and keeps its format', () => {
    const format = { type: 'grammar', syntax: 'lark', definition: 'start: "a"' }
    const [tool] =
      optionsOf({ tools: [{ type: 'custom', name: 'patch', description: 'Patches', format }] })?.tools ?? []
    const parameters = { required: ['input'] }
    expect(tool).toMatchObject({ name: 'patch', description: 'Patches', parameters, custom: { format } })
  })

  test('the tools of a namespace have its name before theirs', () => {
    const tools = [
      { type: 'namespace', name: 'mcp__files', description: 'Files.', tools: [look, { ...look, name: 'b' }] },
    ]
    const request = parse({ tools, tool_choice: { type: 'function', name: 'look' } })
    const { offered, choice, describe: describeTool } = toTools(request)
    expect(offered).toMatchObject([
      { name: 'mcp__files__look', description: 'Files.\n\nLooks' },
      { name: 'mcp__files__b', description: 'Looks' },
    ])
    expect(choice).toEqual({ name: 'mcp__files__look' })
    expect(describeTool('mcp__files__look')).toEqual({ type: 'function', name: 'look', namespace: 'mcp__files' })
  })

  test('allowed_tools offers only these', () => {
    const tools = [look, { ...look, name: 'b' }]
    const tool_choice = { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'b' }] }
    expect(optionsOf({ tools, tool_choice })).toMatchObject({ tools: [{ name: 'b' }], toolChoice: 'required' })
  })

  test('a choice of an unknown tool, and two tools of one name, are rejected', () => {
    expect(() => optionsOf({ tools: [look], tool_choice: { type: 'function', name: 'x' } })).toThrow('No tool')
    expect(() => optionsOf({ tools: [look, look] })).toThrow('Two tools')
  })

  test('a choice that needs a tool is rejected if there is none', () => {
    const allowed = (mode: string) => ({ type: 'allowed_tools', mode, tools: [] })
    for (const fields of [
      { tool_choice: 'required' },
      { tool_choice: allowed('required'), tools: [look] },
      { tool_choice: allowed('auto'), tools: [look] },
    ]) {
      expect(() => optionsOf(fields), JSON.stringify(fields)).toThrow('needs a tool')
    }
    for (const tool_choice of ['auto', 'none', 'required']) {
      const isOptional = tool_choice === 'required' ? undefined : true
      const options = optionsOf({ tool_choice, tools: [{ type: 'web_search' }] })
      expect(options).toMatchObject({ tools: [{ native: { isOptional } }], toolChoice: tool_choice })
    }
    expect(optionsOf({ tool_choice: 'required', tools: [look] })).toMatchObject({ toolChoice: 'required' })
  })
})

const call = { type: 'function_call', call_id: '1', name: 'f', arguments: '{}' }
/** Requests with arrays that the schema does not check. */
const UNCHECKED: object[] = [
  { tools: [{ type: 'function', name: 'f', tools: [null] }] },
  { tools: [{ type: 'web_search', tools: [null] }] },
  { input: [{ ...call, content: [null] }] },
  { input: [{ ...call, output: [null] }] },
  { input: [{ role: 'user', content: 'Hi', output: [null] }] },
]

/** Adds arbitrary members, mostly with names that mean something elsewhere. */
const withMore = (base: object) => {
  const name = fc.constantFrom('content', 'output', 'tools', 'format', 'detail', 'input', 'summary', 'role', 'x')
  const value = fc.oneof(fc.jsonValue({ maxDepth: 3 }), fc.array(fc.jsonValue({ maxDepth: 1 })))
  return fc.dictionary(name, value, { maxKeys: 3 }).map((more): object => ({ ...more, ...base }))
}
const anyPart = fc.oneof(
  withMore({ type: 'input_text', text: 'a' }),
  withMore({ type: 'input_image', image_url: 'data:image/png;base64,aGk=' }),
)
const anyTool = fc.oneof(
  withMore({ type: 'function', name: 'f' }),
  withMore({ type: 'custom', name: 'c' }),
  withMore({ type: 'web_search' }),
  fc
    .array(withMore({ type: 'function', name: 'g' }))
    .chain((tools) => withMore({ type: 'namespace', name: 'n', tools })),
)
const anyItem = fc.oneof(
  withMore(call),
  withMore({ type: 'custom_tool_call', call_id: '2', name: 'c', input: '' }),
  withMore({ type: 'reasoning' }),
  withMore({ type: 'item_reference', id: 'msg_1_0' }),
  fc.array(anyPart).chain((output) => withMore({ type: 'function_call_output', call_id: '1', output })),
  fc.array(anyPart).chain((content) => withMore({ role: 'user', content })),
)
const anyRequest = fc
  .record({ tools: fc.array(anyTool, { maxLength: 2 }), input: fc.array(anyItem, { minLength: 1, maxLength: 3 }) })
  .chain((fields) => withMore({ model: 'p/m', ...fields }))

describe('dropped members', () => {
  test('a request whose members all have an effect has none', () => {
    expect(
      droppedFrom(
        parse({
          ...{ store: false, truncation: 'disabled', metadata: { a: 'b' }, include: ['reasoning.encrypted_content'] },
          ...{ background: false, previous_response_id: null, service_tier: null, text: { format: { type: 'text' } } },
        }),
        false,
      ),
    ).toEqual([])
  })

  test('members that only this API has are native options, unless they are null', () => {
    expect(nativeMembers(parse({ reasoning: { effort: 'low', summary: 'auto' } }))).toEqual({
      'reasoning.summary': 'auto',
    })
    expect(nativeMembers(parse({ reasoning: { effort: 'low', summary: null }, service_tier: null }))).toEqual({})
    const native = { truncation: 'auto', service_tier: 'flex', a_new_member: { a: 1 } }
    expect(nativeMembers(parse({ ...native, text: { format: { type: 'text' }, verbosity: 'low' } }))).toEqual({
      ...native,
      'text.verbosity': 'low',
    })
  })

  test('the tools of a namespace and the parts of a result are read', () => {
    const tools = [{ type: 'namespace', name: 'n', tools: [{ type: 'function', name: 'a', defer_loading: true }] }]
    const output = [{ type: 'input_text', text: 'a', crop: 1 }]
    const input = [{ type: 'function_call_output', call_id: '1', output }]
    expect(droppedFrom(parse({ tools, input }), false)).toEqual(['tools[].defer_loading', 'input[].content[].crop'])
  })

  test('every request that the schema accepts has a list', () => {
    let accepted = 0
    fc.assert(
      fc.property(anyRequest, (body) => {
        const { success, data } = ResponsesRequest.safeParse(body)
        if (!success) return
        accepted++
        for (const name of droppedFrom(data, false)) expect(name).toBeTypeOf('string')
      }),
      { numRuns: 400, examples: UNCHECKED.map((fields): [object] => [{ model: 'p/m', input: 'Hi', ...fields }]) },
    )
    expect(accepted).toBeGreaterThan(50)
  })

  test('storing has an effect if the operator turned it on', () => {
    expect(droppedFrom(parse({ store: true }), true)).toEqual([])
  })

  test('are listed with their places', () => {
    const image = { type: 'input_image', image_url: 'data:image/png;base64,aGk=', detail: 'high', crop: 1 }
    const format = { type: 'grammar', syntax: 'regex', definition: 'a' }
    expect(
      droppedFrom(
        parse({
          store: true,
          stream_options: { include_obfuscation: true },
          tools: [
            { type: 'web_search' },
            { type: 'function', name: 'a', defer_loading: true },
            { type: 'custom', name: 'b', format },
          ],
          input: [{ role: 'user', content: [image], weight: 2 }],
        }),
        false,
      ).sort(),
    ).toEqual(
      [
        ...['store', 'input[].weight', 'input[].content[].crop', 'stream_options.include_obfuscation'],
        'tools[].defer_loading',
      ].sort(),
    )
  })
})
