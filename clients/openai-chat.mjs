import { commonScenarios, dataUrlOf } from './harness/common-scenarios.mjs'

const connect = async ({ url, apiKey, load }) => {
  const { default: OpenAI } = await load('openai')
  return new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 })
}

function toPart(part) {
  if (part.kind === 'text') return { type: 'text', text: part.text }
  if (part.kind === 'pdf') return { type: 'file', file: { filename: 'mill.pdf', file_data: dataUrlOf(part) } }
  return { type: 'image_url', image_url: { url: part.url ?? dataUrlOf(part) } }
}

const bodyOf = ({ model }, { parts, system, maxTokens, stop, cached }) => ({
  model,
  messages: [...(system ? [{ role: 'system', content: system }] : []), { role: 'user', content: parts.map(toPart) }],
  ...(maxTokens && { max_completion_tokens: maxTokens }),
  ...(stop && { stop: [stop] }),
  ...(cached && { prompt_cache_key: 'session-1' }),
})

const usageOf = ({ prompt_tokens: input, completion_tokens: output, prompt_tokens_details: details }) => ({
  input,
  output,
  cached: details?.cached_tokens,
})

async function ask(ctx, question, more) {
  const client = await connect(ctx)
  const { choices, usage } = await client.chat.completions.create(
    { ...bodyOf(ctx, question), ...more },
    { signal: ctx.signal },
  )
  return { text: choices[0].message.content, usage: usageOf(usage) }
}

async function read(ctx, question) {
  const client = await connect(ctx)
  const body = { ...bodyOf(ctx, question), stream: true, stream_options: { include_usage: true } }
  const stream = await client.chat.completions.create(body, { signal: ctx.signal })
  const seen = { text: '', pieces: 0 }
  for await (const { choices, usage } of stream) {
    const piece = choices[0]?.delta.content
    if (piece) {
      seen.text += piece
      seen.pieces++
      question.onPiece?.(() => stream.controller.abort())
    }
    if (usage) seen.usage = usageOf(usage)
  }
  return seen
}

async function runTools(ctx, question) {
  const client = await connect(ctx)
  const { name, description, schema } = ctx.data.stepTool
  let toolCalls = 0
  const run = (input) => {
    toolCalls++
    return ctx.doStep(input)
  }
  const tool = {
    type: 'function',
    function: { name, description, parameters: schema, parse: JSON.parse, function: run },
  }
  const options = { maxChatCompletions: 400, signal: ctx.signal }
  const runner = client.chat.completions.runTools({ ...bodyOf(ctx, question), tools: [tool] }, options)
  return { text: await runner.finalContent(), toolCalls }
}

async function askObject(ctx, question) {
  const json_schema = { name: 'person', schema: ctx.data.person, strict: true }
  const result = await ask(ctx, question, { response_format: { type: 'json_schema', json_schema } })
  return { ...result, object: JSON.parse(result.text) }
}

export default {
  name: 'OpenAI SDK, chat completions',
  packages: ['openai'],
  interface: 'chat',
  scenarios: commonScenarios({ ask, read, runTools, askObject }),
}
