// Mastra: an agent with any model.
import { Agent } from '@mastra/core/agent'
import { createTool } from '@mastra/core/tools'

function stepTool({ data, doStep }) {
  const { name, description, schema } = data.stepTool
  const execute = async (input) => doStep(input)
  return createTool({ id: name, description, inputSchema: schema, execute })
}

const usageOf = ({ inputTokens: input, outputTokens: output, cachedInputTokens: cached }) =>
  // A stream of chat completions counts tokens only on request, and the client does not ask.
  input === undefined ? undefined : { input, output, cached }

/**
 * Creates the client.
 * @param {object} options
 * @param {(ctx: object) => object} options.model creates the model of the agent
 * @param {string} options.spoken the interface of the model
 * @param {{instructions: (text: string) => unknown, options?: object}} options.cached how the model caches a prefix
 * @param {string} [options.imageUrl] why the model cannot send the address of an image
 */
export function mastra({ name, packages = [], spoken, model, cached, imageUrl }) {
  const agentOf = (ctx, { tools, instructions = 'Answer briefly.' } = {}) =>
    new Agent({ id: 'miller', name: 'Miller', instructions, model: model(ctx), ...(tools && { tools }) })

  async function ask(ctx, prompt, { agent, ...options } = {}) {
    const answer = await agentOf(ctx, agent).generate(prompt, { abortSignal: ctx.signal, ...options })
    if (answer.error) throw answer.error
    return {
      text: answer.text,
      object: answer.object,
      toolCalls: answer.steps.reduce((sum, { toolCalls }) => sum + toolCalls.length, 0),
      finish: answer.finishReason,
      ...(answer.steps.length === 1 && { usage: usageOf(answer.totalUsage) }),
    }
  }

  async function read(ctx, { onPiece, ...options } = {}) {
    const output = await agentOf(ctx).stream(ctx.prompt('Hi'), { abortSignal: ctx.signal, ...options })
    let text = ''
    let pieces = 0
    for await (const piece of output.textStream) {
      text += piece
      pieces++
      onPiece?.()
    }
    if (output.error) throw output.error
    const finish = await output.finishReason
    return { text, pieces, finish, usage: usageOf(await output.totalUsage) }
  }

  const runTools = (ctx) =>
    ask(ctx, ctx.prompt('Do all steps.'), {
      maxSteps: 400,
      agent: { tools: { [ctx.data.stepTool.name]: stepTool(ctx) } },
    })

  const askAbout = (ctx, part) =>
    ask(ctx, [{ role: 'user', content: [{ type: 'text', text: ctx.prompt('What is this?') }, part] }])

  return {
    name,
    packages: ['@mastra/core', ...packages],
    interface: spoken,
    scenarios: {
      chat: (ctx) => ask(ctx, ctx.prompt('Hi')),
      stream: (ctx) => read(ctx),
      'tools-10': runTools,
      'tools-300': runTools,
      parallel: runTools,
      structured: (ctx) => ask(ctx, ctx.prompt('Who?'), { structuredOutput: { schema: ctx.data.person } }),
      'image-data': (ctx) => askAbout(ctx, { type: 'image', image: ctx.data.png, mediaType: 'image/png' }),
      'image-url':
        imageUrl ??
        ((ctx) => askAbout(ctx, { type: 'image', image: new URL(ctx.data.pngUrl), mediaType: 'image/png' })),
      pdf: (ctx) =>
        askAbout(ctx, { type: 'file', data: ctx.data.pdf, mediaType: 'application/pdf', filename: 'mill.pdf' }),
      'text-600k': (ctx) => ask(ctx, ctx.prompt(ctx.data.text600k)),
      'body-4m': (ctx) => askAbout(ctx, { type: 'image', image: ctx.data.png4m, mediaType: 'image/png' }),
      'max-tokens': (ctx) => ask(ctx, ctx.prompt('Hi'), { modelSettings: { maxOutputTokens: 16_000 } }),
      async caching(ctx) {
        const turn = () =>
          ask(ctx, ctx.prompt('Hi'), {
            agent: { instructions: cached.instructions(ctx.data.longSystem) },
            ...cached.options,
          })
        await turn()
        return turn()
      },
      stop: (ctx) => ask(ctx, ctx.prompt('Count.'), { modelSettings: { stopSequences: ['STOP_HERE'] } }),
      async cancel(ctx) {
        const controller = new AbortController()
        return read(ctx, { abortSignal: controller.signal, onPiece: () => controller.abort() })
      },
      broken: (ctx) => read(ctx),
    },
  }
}
