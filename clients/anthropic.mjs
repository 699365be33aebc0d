import { commonScenarios } from './harness/common-scenarios.mjs'

const connect = async ({ url, apiKey, load }) => {
  const { default: Anthropic } = await load('@anthropic-ai/sdk')
  return new Anthropic({ baseURL: url, apiKey, maxRetries: 0 })
}

function toBlock(part) {
  if (part.kind === 'text') return { type: 'text', text: part.text }
  if (part.kind === 'address') return { type: 'image', source: { type: 'url', url: part.url } }
  const data = part.bytes.toString('base64')
  if (part.kind === 'pdf') return { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data } }
  return { type: 'image', source: { type: 'base64', media_type: 'image/png', data } }
}

const bodyOf = ({ model }, { parts, system, maxTokens = 1024, stop, cached }) => ({
  model,
  max_tokens: maxTokens,
  messages: [{ role: 'user', content: parts.map(toBlock) }],
  ...(system && {
    system: [{ type: 'text', text: system, ...(cached && { cache_control: { type: 'ephemeral' } }) }],
  }),
  ...(stop && { stop_sequences: [stop] }),
})

const textOf = (content) => content.map(({ text }) => text ?? '').join('')
const resultOf = ({ content, usage }) => ({
  text: textOf(content),
  usage: {
    input: usage.input_tokens + (usage.cache_read_input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0),
    output: usage.output_tokens,
    cached: usage.cache_read_input_tokens,
  },
})

async function ask(ctx, question, more) {
  const client = await connect(ctx)
  return resultOf(await client.messages.create({ ...bodyOf(ctx, question), ...more }, { signal: ctx.signal }))
}

async function read(ctx, question) {
  const client = await connect(ctx)
  const stream = client.messages.stream(bodyOf(ctx, question), { signal: ctx.signal })
  let pieces = 0
  stream.on('text', () => {
    pieces++
    question.onPiece?.(() => stream.abort())
  })
  return { ...resultOf(await stream.finalMessage()), pieces }
}

async function runTools(ctx, question) {
  const client = await connect(ctx)
  const { betaTool } = await ctx.load('@anthropic-ai/sdk/helpers/beta/json-schema')
  const { name, description, schema } = ctx.data.stepTool
  let toolCalls = 0
  const run = (input) => {
    toolCalls++
    return ctx.doStep(input)
  }
  const tools = [betaTool({ name, description, inputSchema: schema, run })]
  const runner = client.beta.messages.toolRunner(
    { ...bodyOf(ctx, question), tools, max_iterations: 400 },
    { signal: ctx.signal },
  )
  return { text: textOf((await runner.runUntilDone()).content), toolCalls }
}

async function askObject(ctx, question) {
  const format = { type: 'json_schema', schema: ctx.data.person }
  const result = await ask(ctx, question, { output_config: { format } })
  return { ...result, object: JSON.parse(result.text) }
}

export default {
  name: 'Anthropic SDK',
  packages: ['@anthropic-ai/sdk'],
  interface: 'messages',
  scenarios: commonScenarios({ ask, read, runTools, askObject }),
}
