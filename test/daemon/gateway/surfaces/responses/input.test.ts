import { describe, expect, test } from 'vitest'
import { droppedFrom } from '../../../../../src/daemon/gateway/surfaces/responses/dropped.ts'
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

  test('images are data URLs; files and other URLs are rejected', () => {
    const user = (part: object) => [{ role: 'user', content: [part] }]
    expect(messagesOf(user({ type: 'input_image', image_url: 'data:image/png;base64,aGk=', detail: 'auto' }))).toEqual([
      { role: 'user', content: [{ type: 'image', mediaType: 'image/png', data: 'aGk=' }] },
    ])
    expect(() => messagesOf(user({ type: 'input_image', image_url: 'https://example.org/a.png' }))).toThrow('data: URL')
    expect(() => messagesOf(user({ type: 'input_image', file_id: 'file-1' }))).toThrow('stores no files')
    expect(() => messagesOf(user({ type: 'input_file', file_data: 'data:application/pdf;base64,aGk=' }))).toThrow(
      'Files are not supported',
    )
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
          { id: 'c2', name: 'patch', arguments: '{"input":"a\\"b"}' },
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

  test('a custom tool is a function with one text; its grammar is described', () => {
    const format = { type: 'grammar', syntax: 'lark', definition: 'start: "a"' }
    const [tool] =
      optionsOf({ tools: [{ type: 'custom', name: 'patch', description: 'Patches', format }] })?.tools ?? []
    expect(tool).toMatchObject({ name: 'patch', parameters: { required: ['input'] } })
    expect(tool?.description).toBe('Patches\n\nWrite `input` in exactly this form (lark):\n\nstart: "a"')
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
})

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

  test('storing has an effect if the operator turned it on', () => {
    expect(droppedFrom(parse({ store: true }), true)).toEqual([])
  })

  test('are listed with their places', () => {
    const image = { type: 'input_image', image_url: 'data:image/png;base64,aGk=', detail: 'high', crop: 1 }
    const format = { type: 'grammar', syntax: 'regex', definition: 'a' }
    expect(
      droppedFrom(
        parse({
          ...{ store: true, truncation: 'auto', service_tier: 'flex', text: { verbosity: 'low' } },
          ...{ include: ['web_search_call.results'], reasoning: { context: 'auto' } },
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
        ...['store', 'truncation', 'service_tier', 'text.verbosity', 'include[web_search_call.results]'],
        ...['reasoning.context', 'stream_options.include_obfuscation', 'tools[web_search]', 'tools[].defer_loading'],
        ...['tools[].format', 'input[].weight', 'input[].content[].crop', 'input[].content[].detail'],
      ].sort(),
    )
  })
})
