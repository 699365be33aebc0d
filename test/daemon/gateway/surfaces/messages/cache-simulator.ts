// An Anthropic provider that simulates its prompt cache: it reads the longest prefix that an earlier request wrote.
import { replyJson, type Script } from '../../../../upstream.ts'

type Block = Record<string, unknown> & { cache_control?: { ttl?: string } }
type Turn = { role: string; content: Block[] }
type Body = { tools?: Block[]; system?: string | Block[]; messages: Turn[] }

/** The blocks of a request in the order in which the cache reads them. */
function blocksOf({ tools = [], system = [], messages }: Body): Block[] {
  const prompt = typeof system === 'string' ? [{ type: 'text', text: system }] : system
  const said = messages.flatMap(({ role, content }) => content.map((block) => ({ role, ...block })))
  return [...tools, ...prompt, ...said]
}

const sizeOf = (blocks: readonly string[]): number => blocks.join('').length

/** Creates the script of an upstream. One byte counts as one token. `answers` are the contents of its answers. */
export function simulateCache(answers: readonly object[][]): Script {
  const written = new Set<string>()
  let turn = 0
  return async (exchange) => {
    const blocks = blocksOf(exchange.request.body as Body)
    // The breakpoint itself is not part of the cached text.
    const texts = blocks.map(({ cache_control: _, ...block }) => JSON.stringify(block))
    let read = 0
    let hour = 0
    let minutes = 0
    let from = 0
    const writes: string[] = []
    for (const [at, { cache_control: mark }] of blocks.entries()) {
      if (!mark) continue
      const prefix = texts.slice(0, at + 1)
      const size = sizeOf(prefix)
      // The longest stored prefix counts as read, even if no breakpoint of this request ends there.
      for (let end = prefix.length; end > 0; end--) {
        if (!written.has(prefix.slice(0, end).join('\n'))) continue
        read = Math.max(read, sizeOf(prefix.slice(0, end)))
        break
      }
      const fresh = size - Math.max(read, from)
      if (mark.ttl === '1h') hour += fresh
      else minutes += fresh
      from = Math.max(from, size)
      writes.push(prefix.join('\n'))
    }
    for (const prefix of writes) written.add(prefix)
    const content = answers[turn++ % answers.length] ?? []
    await replyJson({
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: 'claude-sonnet-4-5',
      content,
      stop_reason: content.some((block) => (block as Block).type === 'tool_use') ? 'tool_use' : 'end_turn',
      stop_sequence: null,
      usage: {
        input_tokens: sizeOf(texts) - read - hour - minutes,
        cache_read_input_tokens: read,
        cache_creation_input_tokens: hour + minutes,
        cache_creation: { ephemeral_5m_input_tokens: minutes, ephemeral_1h_input_tokens: hour },
        output_tokens: 7,
      },
    })(exchange)
  }
}
