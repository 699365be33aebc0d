// LlamaIndex: a model, or an agent with a tool.
import { agent } from '@llamaindex/workflow'
import { tool } from 'llamaindex'
import { z } from 'zod'

const textOf = (content) => (typeof content === 'string' ? content : content.map(({ text = '' }) => text).join(''))
const user = (content) => ({ role: 'user', content })
const base64Of = (bytes) => bytes.toString('base64')

/**
 * Creates the client.
 * @param {object} options
 * @param {(ctx: object, options?: object) => object} options.modelOf creates the model. `options` has the names of the
 * class, such as `maxTokens`
 * @param {(raw: object) => object | undefined} options.usageOf reads the tokens of an answer
 * @param {(chunk: object) => boolean} [options.isIncomplete] whether a piece of a stream says that the answer is broken
 * @param {object} options.own what the model calls differently: `limit(tokens)`, `stop`, `cached(system)`, `imageUrl`
 */
export function llamaindex({ name, packages, spoken, modelOf, usageOf, isIncomplete = () => false, own }) {
  async function ask(ctx, messages, options) {
    const { message, raw } = await modelOf(ctx, options).chat({ messages })
    return { text: textOf(message.content), usage: usageOf(raw) }
  }

  async function read(ctx) {
    const stream = await modelOf(ctx).chat({ messages: [user(ctx.prompt('Hi'))], stream: true })
    let text = ''
    let pieces = 0
    let incomplete = false
    for await (const chunk of stream) {
      if (isIncomplete(chunk)) incomplete = true
      if (!chunk.delta) continue
      text += chunk.delta
      pieces++
    }
    return { text, pieces, incomplete }
  }

  async function runTools(ctx) {
    let toolCalls = 0
    const { name: toolName, description } = ctx.data.stepTool
    const execute = (input) => {
      toolCalls++
      return ctx.doStep(input)
    }
    const step = tool({ name: toolName, description, parameters: z.object({ step: z.number().int() }), execute })
    const miller = agent({ llm: modelOf(ctx), tools: [step], timeout: 170 })
    const { data } = await miller.run(ctx.prompt('Do all steps.'))
    return { text: textOf(data.message.content), toolCalls }
  }

  const askAbout = (ctx, part) => ask(ctx, [user([{ type: 'text', text: ctx.prompt('What is this?') }, part])])
  const image = (ctx, url) => askAbout(ctx, { type: 'image_url', image_url: { url } })
  const imageData = (ctx, bytes) => image(ctx, `data:image/png;base64,${base64Of(bytes)}`)

  return {
    name,
    packages: ['llamaindex', ...packages],
    interface: spoken,
    scenarios: {
      chat: (ctx) => ask(ctx, [user(ctx.prompt('Hi'))]),
      stream: (ctx) => read(ctx),
      'tools-10': runTools,
      'tools-300': runTools,
      parallel: runTools,
      async structured(ctx) {
        const responseFormat = z.object({ name: z.string(), age: z.number().int() })
        const { object } = await modelOf(ctx).exec({ messages: [user(ctx.prompt('Who?'))], responseFormat })
        return { object }
      },
      'image-data': (ctx) => imageData(ctx, ctx.data.png),
      'image-url': own.imageUrl ?? ((ctx) => image(ctx, ctx.data.pngUrl)),
      pdf: (ctx) => askAbout(ctx, { type: 'file', data: base64Of(ctx.data.pdf), mimeType: 'application/pdf' }),
      'text-600k': (ctx) => ask(ctx, [user(ctx.prompt(ctx.data.text600k))]),
      'body-4m': (ctx) => imageData(ctx, ctx.data.png4m),
      'max-tokens': (ctx) => ask(ctx, [user(ctx.prompt('Hi'))], own.limit(16_000)),
      async caching(ctx) {
        const { message, options } = own.cached(ctx.data.longSystem)
        const turn = () => ask(ctx, [message, user(ctx.prompt('Hi'))], options)
        await turn()
        return turn()
      },
      stop: (ctx) => ask(ctx, [user(ctx.prompt('Count.'))], own.stop),
      cancel: 'no: the client cannot abort a request',
      broken: (ctx) => read(ctx),
    },
  }
}
