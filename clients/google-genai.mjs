import { commonScenarios } from './harness/common-scenarios.mjs'

const connect = async ({ url, apiKey, load }) => {
  const { GoogleGenAI } = await load('@google/genai')
  return new GoogleGenAI({ apiKey, httpOptions: { baseUrl: url } })
}

function toPart(part) {
  if (part.kind === 'text') return { text: part.text }
  if (part.kind === 'address') return { fileData: { mimeType: 'image/png', fileUri: part.url } }
  const mimeType = part.kind === 'pdf' ? 'application/pdf' : 'image/png'
  return { inlineData: { mimeType, data: part.bytes.toString('base64') } }
}

const requestOf = ({ model, signal }, { parts, system, maxTokens, stop }) => ({
  model,
  contents: [{ role: 'user', parts: parts.map(toPart) }],
  config: {
    abortSignal: signal,
    ...(system && { systemInstruction: system }),
    ...(maxTokens && { maxOutputTokens: maxTokens }),
    ...(stop && { stopSequences: [stop] }),
  },
})

const usageOf = (usage) => ({
  input: usage.promptTokenCount,
  output: usage.candidatesTokenCount,
  cached: usage.cachedContentTokenCount ?? 0,
})

async function ask(ctx, question, config) {
  const client = await connect(ctx)
  const request = requestOf(ctx, question)
  const answer = await client.models.generateContent({ ...request, config: { ...request.config, ...config } })
  return { text: answer.text, usage: usageOf(answer.usageMetadata) }
}

async function read(ctx, question) {
  const client = await connect(ctx)
  const cancelled = new AbortController()
  const request = requestOf(ctx, question)
  const abortSignal = AbortSignal.any([ctx.signal, cancelled.signal])
  const stream = await client.models.generateContentStream({ ...request, config: { ...request.config, abortSignal } })
  const seen = { text: '', pieces: 0, incomplete: true }
  for await (const chunk of stream) {
    if (chunk.text) {
      seen.text += chunk.text
      seen.pieces++
      question.onPiece?.(() => cancelled.abort())
    }
    if (chunk.usageMetadata) seen.usage = usageOf(chunk.usageMetadata)
    // A program must read the finish reason: the SDK ends a broken stream without an error.
    if (chunk.candidates?.[0]?.finishReason === 'STOP') seen.incomplete = false
  }
  return seen
}

async function runTools(ctx, question) {
  const client = await connect(ctx)
  const { name, description, schema } = ctx.data.stepTool
  const { model, contents, config } = requestOf(ctx, question)
  const tools = [{ functionDeclarations: [{ name, description, parametersJsonSchema: schema }] }]
  for (let toolCalls = 0; ; ) {
    const answer = await client.models.generateContent({ model, contents, config: { ...config, tools } })
    const calls = answer.functionCalls ?? []
    if (calls.length === 0) return { text: answer.text, toolCalls }
    contents.push(answer.candidates[0].content)
    const results = calls.map(({ id, name: called, args }) => {
      toolCalls++
      return { functionResponse: { ...(id && { id }), name: called, response: { output: ctx.doStep(args) } } }
    })
    contents.push({ role: 'user', parts: results })
  }
}

async function askObject(ctx, question) {
  const schema = { responseMimeType: 'application/json', responseJsonSchema: ctx.data.person }
  const result = await ask(ctx, question, schema)
  return { ...result, object: JSON.parse(result.text) }
}

export default {
  name: 'Google Gen AI SDK',
  packages: ['@google/genai'],
  interface: 'gemini',
  scenarios: commonScenarios({ ask, read, runTools, askObject }),
}
