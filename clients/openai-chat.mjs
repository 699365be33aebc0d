// The SDK of OpenAI, chat completions.
const connect = async ({ url, apiKey, load }, options) => {
  const { default: OpenAI } = await load('openai')
  return new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0, ...options })
}

const user = (content) => [{ role: 'user', content }]
const usageOf = (usage) =>
  usage && {
    input: usage.prompt_tokens,
    output: usage.completion_tokens,
    cached: usage.prompt_tokens_details?.cached_tokens,
  }
const resultOf = ({ choices: [choice], usage }) => ({
  text: choice.message.content,
  finish: choice.finish_reason,
  usage: usageOf(usage),
})

async function ask(ctx, content, more) {
  const client = await connect(ctx)
  return resultOf(
    await client.chat.completions.create(
      { model: ctx.model, messages: user(content), ...more },
      { signal: ctx.signal },
    ),
  )
}

async function read(ctx, { text, onPiece, ...more }) {
  const client = await connect(ctx)
  const body = {
    model: ctx.model,
    messages: user(text),
    stream: true,
    stream_options: { include_usage: true },
    ...more,
  }
  const stream = await client.chat.completions.create(body, { signal: ctx.signal })
  const seen = { text: '', pieces: 0, usage: undefined }
  for await (const chunk of stream) {
    const piece = chunk.choices[0]?.delta.content
    if (piece) {
      seen.text += piece
      seen.pieces++
      onPiece?.(stream)
    }
    if (chunk.usage) seen.usage = usageOf(chunk.usage)
  }
  return seen
}

async function runTools(ctx) {
  const client = await connect(ctx)
  let toolCalls = 0
  const { name, description, schema } = ctx.data.stepTool
  const tool = {
    type: 'function',
    function: {
      name,
      description,
      parameters: schema,
      parse: JSON.parse,
      function: (input) => {
        toolCalls++
        return ctx.doStep(input)
      },
    },
  }
  const body = { model: ctx.model, messages: user(ctx.prompt('Do all steps.')), tools: [tool] }
  const runner = client.chat.completions.runTools(body, { maxChatCompletions: 400, signal: ctx.signal })
  return { text: await runner.finalContent(), toolCalls }
}

const image = (ctx, url) =>
  ask(ctx, [
    { type: 'text', text: ctx.prompt('What is this?') },
    { type: 'image_url', image_url: { url } },
  ])
const pngUrl = (bytes) => `data:image/png;base64,${bytes.toString('base64')}`

export default {
  name: 'OpenAI SDK, chat completions',
  packages: ['openai'],
  interface: 'chat',
  scenarios: {
    chat: (ctx) => ask(ctx, ctx.prompt('Hi')),
    stream: (ctx) => read(ctx, { text: ctx.prompt('Hi') }),
    'tools-10': runTools,
    'tools-300': runTools,
    parallel: runTools,
    async structured(ctx) {
      const json_schema = { name: 'person', schema: ctx.data.person, strict: true }
      const { text } = await ask(ctx, ctx.prompt('Who?'), { response_format: { type: 'json_schema', json_schema } })
      return { text, object: JSON.parse(text) }
    },
    'image-data': (ctx) => image(ctx, pngUrl(ctx.data.png)),
    'image-url': (ctx) => image(ctx, ctx.data.pngUrl),
    pdf: (ctx) =>
      ask(ctx, [
        { type: 'text', text: ctx.prompt('What is this?') },
        {
          type: 'file',
          file: { filename: 'mill.pdf', file_data: `data:application/pdf;base64,${ctx.data.pdf.toString('base64')}` },
        },
      ]),
    'text-600k': (ctx) => ask(ctx, ctx.prompt(ctx.data.text600k)),
    'body-4m': (ctx) => image(ctx, pngUrl(ctx.data.png4m)),
    'max-tokens': (ctx) => ask(ctx, ctx.prompt('Hi'), { max_completion_tokens: 16_000 }),
    async caching(ctx) {
      const messages = [{ role: 'system', content: ctx.data.longSystem }, ...user(ctx.prompt('Hi'))]
      const turn = () => ask(ctx, '', { messages, prompt_cache_key: 'session-1' })
      await turn()
      return turn()
    },
    stop: (ctx) => ask(ctx, ctx.prompt('Count.'), { stop: ['STOP_HERE'] }),
    async cancel(ctx) {
      return read(ctx, { text: ctx.prompt('Hi'), onPiece: (stream) => stream.controller.abort() })
    },
    broken: (ctx) => read(ctx, { text: ctx.prompt('Hi') }),
  },
}
