type Said = {
  thoughts?: readonly string[]
  texts?: readonly string[]
  /** The argument pieces of each call. */
  toolCalls?: readonly (readonly string[])[]
  stopReason?: string
  usage?: { input_tokens: number; output_tokens: number }
}

/** An SSE body of the Messages API: a thinking block, a text block, and one block per tool call. */
export function anthropicStream({ thoughts = [], texts = [], toolCalls = [], stopReason, usage }: Said): string {
  const { input_tokens, output_tokens } = usage ?? { input_tokens: 12, output_tokens: 5 }
  const blocks: Block[] = []
  if (thoughts.length > 0) {
    const deltas = thoughts.map((thinking) => ({ type: 'thinking_delta', thinking }))
    blocks.push({
      start: { type: 'thinking', thinking: '', signature: '' },
      deltas: [...deltas, { type: 'signature_delta', signature: 'c2lnbmVk' }],
    })
  }
  if (texts.length > 0) {
    blocks.push({ start: { type: 'text', text: '' }, deltas: texts.map((text) => ({ type: 'text_delta', text })) })
  }
  for (const [call, pieces] of toolCalls.entries()) {
    blocks.push({
      start: { type: 'tool_use', id: `toolu_${call}`, name: `tool_${call}`, input: {} },
      deltas: pieces.map((partial_json) => ({ type: 'input_json_delta', partial_json })),
    })
  }
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'claude-test-1', content: [] }
  return [
    event('message_start', { message: { ...message, usage: { input_tokens, output_tokens: 1 } } }),
    ...blocks.map(toEvents),
    event('message_delta', {
      delta: { stop_reason: stopReason ?? (toolCalls.length > 0 ? 'tool_use' : 'end_turn'), stop_sequence: null },
      usage: { output_tokens },
    }),
    event('message_stop', {}),
  ].join('')
}

type Block = { start: object; deltas: object[] }

const toEvents = ({ start, deltas }: Block, index: number) =>
  [
    event('content_block_start', { index, content_block: start }),
    ...deltas.map((delta) => event('content_block_delta', { index, delta })),
    event('content_block_stop', { index }),
  ].join('')

const event = (type: string, data: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`
