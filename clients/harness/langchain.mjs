// What the chat models of LangChain have in common, alone and in an agent of LangGraph.
import { commonScenarios, dataUrlOf } from './common-scenarios.mjs'

/** LangChain's own parts, for models that read them, and the parts of OpenAI for the others. */
const standard = {
  text: ({ text }) => ({ type: 'text', text }),
  address: ({ url }) => ({ type: 'image_url', image_url: { url } }),
  image: (part) => ({ type: 'image_url', image_url: { url: dataUrlOf(part) } }),
  pdf: ({ bytes }) => ({
    type: 'file',
    source_type: 'base64',
    mime_type: 'application/pdf',
    data: bytes.toString('base64'),
    metadata: { filename: 'mill.pdf' },
  }),
}

const usageOf = (usage) =>
  usage && { input: usage.input_tokens, output: usage.output_tokens, cached: usage.input_token_details?.cache_read }

const textOf = ({ content }) =>
  typeof content === 'string' ? content : content.map((part) => part.text ?? '').join('')

/**
 * A chat model of LangChain.
 * @param {object} given
 * @param {(ctx, options: {maxTokens?: number, stop?: string, cached?: boolean}) => Promise<object>} given.model
 * @param {object} [given.parts] how the model takes some parts of a message
 * @param {object} [given.onSystem] members of the text of a system prompt that is to be cached
 * @param {boolean} [given.inAgent] asks through an agent of LangGraph
 */
export function langChainClient(
  { name, packages, interface: spoken, model, parts: own, onSystem, inAgent, hasStop },
  missing,
) {
  const toPart = { ...standard, ...own }

  async function messagesOf({ load }, { parts, system, cached }) {
    const { HumanMessage, SystemMessage } = await load('@langchain/core/messages')
    const content = parts.map((part) => toPart[part.kind](part))
    const instructions = [{ type: 'text', text: system, ...(cached && onSystem) }]
    return [...(system ? [new SystemMessage({ content: instructions })] : []), new HumanMessage({ content })]
  }

  async function agentOf(ctx, question, more) {
    const { createReactAgent } = await ctx.load('@langchain/langgraph/prebuilt')
    return createReactAgent({ llm: await model(ctx, question), tools: [], ...more })
  }

  async function ask(ctx, question) {
    const messages = await messagesOf(ctx, question)
    const options = { signal: ctx.signal }
    const answer = inAgent
      ? (await (await agentOf(ctx, question)).invoke({ messages }, options)).messages.at(-1)
      : await (await model(ctx, question)).invoke(messages, options)
    return { text: textOf(answer), usage: usageOf(answer.usage_metadata) }
  }

  async function* chunksOf(ctx, question, signal) {
    const messages = await messagesOf(ctx, question)
    if (!inAgent) return yield* await (await model(ctx, question)).stream(messages, { signal })
    const agent = await agentOf(ctx, question)
    for await (const [chunk] of await agent.stream({ messages }, { signal, streamMode: 'messages' })) yield chunk
  }

  async function read(ctx, question) {
    const cancelled = new AbortController()
    const seen = { text: '', pieces: 0 }
    let whole
    for await (const chunk of chunksOf(ctx, question, AbortSignal.any([ctx.signal, cancelled.signal]))) {
      whole = whole ? whole.concat(chunk) : chunk
      const piece = textOf(chunk)
      if (!piece) continue
      seen.text += piece
      seen.pieces++
      question.onPiece?.(() => cancelled.abort())
    }
    return { ...seen, usage: usageOf(whole?.usage_metadata) }
  }

  async function runTools(ctx, question) {
    const { tool } = await ctx.load('@langchain/core/tools')
    const { ToolMessage } = await ctx.load('@langchain/core/messages')
    const { name: called, description, schema } = ctx.data.stepTool
    let toolCalls = 0
    const run = async (input) => {
      toolCalls++
      return ctx.doStep(input)
    }
    const step = tool(run, { name: called, description, schema })
    const messages = await messagesOf(ctx, question)
    if (inAgent) {
      const agent = await agentOf(ctx, question, { tools: [step] })
      const end = await agent.invoke({ messages }, { signal: ctx.signal, recursionLimit: 1000 })
      return { text: textOf(end.messages.at(-1)), toolCalls }
    }
    const bound = (await model(ctx, question)).bindTools([step])
    for (;;) {
      const answer = await bound.invoke(messages, { signal: ctx.signal })
      if (!answer.tool_calls?.length) return { text: textOf(answer), toolCalls }
      messages.push(answer)
      for (const { id, name: asked, args } of answer.tool_calls)
        messages.push(new ToolMessage({ tool_call_id: id, name: asked, content: await run(args) }))
    }
  }

  async function askObject(ctx, question) {
    const messages = await messagesOf(ctx, question)
    const schema = { title: 'person', ...ctx.data.person }
    if (inAgent) {
      const agent = await agentOf(ctx, question, { responseFormat: schema })
      return { object: (await agent.invoke({ messages }, { signal: ctx.signal })).structuredResponse }
    }
    const structured = (await model(ctx, question)).withStructuredOutput(schema)
    return { object: await structured.invoke(messages, { signal: ctx.signal }) }
  }

  return {
    name,
    packages,
    interface: spoken,
    scenarios: commonScenarios({ ask, read, runTools, askObject, hasStop }, missing),
  }
}

/** The chat model of @langchain/openai. */
export async function chatOpenAi({ url, apiKey, model, load }, { maxTokens, stop, cached }, more) {
  const { ChatOpenAI } = await load('@langchain/openai')
  return new ChatOpenAI({
    model,
    apiKey,
    configuration: { baseURL: `${url}/v1` },
    maxRetries: 0,
    ...(maxTokens && { maxTokens }),
    ...(stop && { stop: [stop] }),
    ...(cached && { promptCacheKey: 'session-1' }),
    ...more,
  })
}
