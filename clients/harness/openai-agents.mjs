// OpenAI Agents, which speaks either Responses or chat completions.
import { Agent, OpenAIProvider, Runner, setTracingDisabled, tool } from '@openai/agents'

// Traces go to OpenAI.
setTracingDisabled(true)

const user = (...content) => [{ role: 'user', content }]
const inputText = (text) => ({ type: 'input_text', text })
const dataUrl = (mime, bytes) => `data:${mime};base64,${bytes.toString('base64')}`
const cachedOf = (details) => details.reduce((sum, { cached_tokens = 0 }) => sum + cached_tokens, 0)

function stepTool({ data, doStep }) {
  const { name, description, schema } = data.stepTool
  return tool({ name, description, parameters: schema, strict: true, execute: doStep })
}

/**
 * Creates the client.
 * @param {{name: string, useResponses: boolean, stop: object | string}} options `stop`: the settings that end an answer early, or why there are none
 */
export function openaiAgents({ name, useResponses, stop }) {
  const start = (ctx, input, { agent, ...options } = {}) => {
    const modelProvider = new OpenAIProvider({ baseURL: `${ctx.url}/v1`, apiKey: ctx.apiKey, useResponses })
    const runner = new Runner({ modelProvider, tracingDisabled: true })
    return runner.run(new Agent({ name: 'Miller', model: ctx.model, ...agent }), input, options)
  }

  function resultOf({ finalOutput, newItems, rawResponses, state }) {
    const { inputTokens, outputTokens, inputTokensDetails } = state.usage
    return {
      ...(typeof finalOutput === 'string' ? { text: finalOutput } : { object: finalOutput }),
      toolCalls: newItems.filter(({ type }) => type === 'tool_call_item').length,
      ...(rawResponses.length === 1 && {
        usage: { input: inputTokens, output: outputTokens, cached: cachedOf(inputTokensDetails) },
      }),
    }
  }

  const ask = async (ctx, input, options) => resultOf(await start(ctx, input, { signal: ctx.signal, ...options }))

  async function read(ctx, { onPiece, ...options } = {}) {
    const run = await start(ctx, ctx.prompt('Hi'), { stream: true, signal: ctx.signal, ...options })
    let text = ''
    let pieces = 0
    for await (const piece of run.toTextStream()) {
      text += piece
      pieces++
      onPiece?.()
    }
    await run.completed
    return run.cancelled ? { text, pieces, incomplete: true } : { ...resultOf(run), text, pieces }
  }

  const runTools = (ctx, options) =>
    ask(ctx, ctx.prompt('Do all steps.'), { maxTurns: 400, agent: { tools: [stepTool(ctx)], ...options } })

  const image = (ctx, url) =>
    ask(ctx, user(inputText(ctx.prompt('What is this?')), { type: 'input_image', image: url }))

  return {
    name,
    packages: ['@openai/agents'],
    interface: useResponses ? 'responses' : 'chat',
    scenarios: {
      chat: (ctx) => ask(ctx, ctx.prompt('Hi')),
      stream: (ctx) => read(ctx),
      'tools-10': (ctx) => runTools(ctx),
      'tools-300': (ctx) => runTools(ctx),
      parallel: (ctx) => runTools(ctx, { modelSettings: { parallelToolCalls: true } }),
      structured(ctx) {
        const outputType = { type: 'json_schema', name: 'person', strict: true, schema: ctx.data.person }
        return ask(ctx, ctx.prompt('Who?'), { agent: { outputType } })
      },
      'image-data': (ctx) => image(ctx, dataUrl('image/png', ctx.data.png)),
      'image-url': (ctx) => image(ctx, ctx.data.pngUrl),
      pdf: (ctx) =>
        ask(
          ctx,
          user(inputText(ctx.prompt('What is this?')), {
            type: 'input_file',
            filename: 'mill.pdf',
            file: dataUrl('application/pdf', ctx.data.pdf),
          }),
        ),
      'text-600k': (ctx) => ask(ctx, ctx.prompt(ctx.data.text600k)),
      'body-4m': (ctx) => image(ctx, dataUrl('image/png', ctx.data.png4m)),
      'max-tokens': (ctx) => ask(ctx, ctx.prompt('Hi'), { agent: { modelSettings: { maxTokens: 16_000 } } }),
      async caching(ctx) {
        const modelSettings = { promptCacheRetention: '24h', providerData: { prompt_cache_key: 'session-1' } }
        const turn = () => ask(ctx, ctx.prompt('Hi'), { agent: { instructions: ctx.data.longSystem, modelSettings } })
        await turn()
        return turn()
      },
      stop:
        typeof stop === 'string' ? stop : (ctx) => ask(ctx, ctx.prompt('Count.'), { agent: { modelSettings: stop } }),
      async cancel(ctx) {
        const controller = new AbortController()
        return read(ctx, { signal: controller.signal, onPiece: () => controller.abort() })
      },
      broken: (ctx) => read(ctx),
    },
  }
}
