import { commonScenarios, dataUrlOf } from './harness/common-scenarios.mjs'

const connect = async ({ url, apiKey, load }) => {
  const { default: OpenAI } = await load('openai')
  return new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 })
}

function toPart(part) {
  if (part.kind === 'text') return { type: 'input_text', text: part.text }
  if (part.kind === 'pdf') return { type: 'input_file', filename: 'mill.pdf', file_data: dataUrlOf(part) }
  return { type: 'input_image', image_url: part.url ?? dataUrlOf(part), detail: 'auto' }
}

const bodyOf = ({ model }, { parts, system, maxTokens, cached }) => ({
  model,
  input: [{ role: 'user', content: parts.map(toPart) }],
  ...(system && { instructions: system }),
  ...(maxTokens && { max_output_tokens: maxTokens }),
  ...(cached && { prompt_cache_key: 'session-1' }),
})

const resultOf = ({ status, output_text: text, usage }) => ({
  text,
  incomplete: status !== 'completed',
  usage: usage && {
    input: usage.input_tokens,
    output: usage.output_tokens,
    cached: usage.input_tokens_details.cached_tokens,
  },
})

async function ask(ctx, question, more) {
  const client = await connect(ctx)
  return resultOf(await client.responses.create({ ...bodyOf(ctx, question), ...more }, { signal: ctx.signal }))
}

async function read(ctx, question) {
  const client = await connect(ctx)
  const stream = client.responses.stream(bodyOf(ctx, question), { signal: ctx.signal })
  let pieces = 0
  stream.on('response.output_text.delta', () => {
    pieces++
    question.onPiece?.(() => stream.abort())
  })
  return { ...resultOf(await stream.finalResponse()), pieces }
}

async function runTools(ctx, question) {
  const client = await connect(ctx)
  const { name, description, schema } = ctx.data.stepTool
  const { input, ...body } = bodyOf(ctx, question)
  const tools = [{ type: 'function', name, description, parameters: schema, strict: true }]
  for (let toolCalls = 0; ; ) {
    const answer = await client.responses.create({ ...body, input, tools }, { signal: ctx.signal })
    const calls = answer.output.filter(({ type }) => type === 'function_call')
    if (calls.length === 0) return { text: answer.output_text, toolCalls }
    input.push(...answer.output)
    for (const { call_id, arguments: given } of calls) {
      toolCalls++
      input.push({ type: 'function_call_output', call_id, output: ctx.doStep(JSON.parse(given)) })
    }
  }
}

async function askObject(ctx, question) {
  const format = { type: 'json_schema', name: 'person', schema: ctx.data.person, strict: true }
  const result = await ask(ctx, question, { text: { format } })
  return { ...result, object: JSON.parse(result.text) }
}

export default {
  name: 'OpenAI SDK, Responses',
  packages: ['openai'],
  interface: 'responses',
  // This interface has no stop sequences.
  scenarios: commonScenarios({ ask, read, runTools, askObject, hasStop: false }),
}
