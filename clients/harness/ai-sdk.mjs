// What all providers of the AI SDK have in common.
import { commonScenarios } from './common-scenarios.mjs'

function toPart(part) {
  if (part.kind === 'text') return { type: 'text', text: part.text }
  if (part.kind === 'pdf') return { type: 'file', data: part.bytes, mediaType: 'application/pdf', filename: 'mill.pdf' }
  return { type: 'image', image: part.url ? new URL(part.url) : part.bytes, mediaType: 'image/png' }
}

const usageOf = ({ inputTokens, outputTokens, inputTokenDetails, cachedInputTokens }) => ({
  input: inputTokens,
  output: outputTokens,
  cached: inputTokenDetails?.cacheReadTokens ?? cachedInputTokens,
})

/**
 * A client of the AI SDK.
 * @param {object} provider
 * @param {(ctx) => Promise<object>} provider.model the model of the provider
 * @param {object} [provider.onRequest] provider options of a request that is to be cached
 * @param {object} [provider.onSystem] provider options of a system prompt that is to be cached
 */
export function aiSdkClient({ name, packages, interface: spoken, model, onRequest, onSystem, hasStop }, missing) {
  async function settingsOf(ctx, { parts, system, maxTokens, stop, cached }) {
    return {
      model: await model(ctx),
      messages: [{ role: 'user', content: parts.map(toPart) }],
      ...(system && {
        system: cached && onSystem ? { role: 'system', content: system, providerOptions: onSystem } : system,
      }),
      ...(maxTokens && { maxOutputTokens: maxTokens }),
      ...(stop && { stopSequences: [stop] }),
      ...(cached && onRequest && { providerOptions: onRequest }),
      abortSignal: ctx.signal,
      maxRetries: 0,
    }
  }

  async function ask(ctx, question) {
    const { generateText } = await ctx.load('ai')
    const { text, usage } = await generateText(await settingsOf(ctx, question))
    return { text, usage: usageOf(usage) }
  }

  async function read(ctx, question) {
    const { streamText } = await ctx.load('ai')
    const cancelled = new AbortController()
    const abortSignal = AbortSignal.any([ctx.signal, cancelled.signal])
    const seen = { text: '', pieces: 0 }
    const onError = ({ error }) => {
      seen.error = `${error?.name}: ${error?.message ?? JSON.stringify(error)}`
    }
    const stream = streamText({ ...(await settingsOf(ctx, question)), abortSignal, onError })
    for await (const piece of stream.textStream) {
      seen.text += piece
      seen.pieces++
      question.onPiece?.(() => cancelled.abort())
    }
    if (seen.error || cancelled.signal.aborted) return seen
    return { ...seen, incomplete: (await stream.finishReason) !== 'stop', usage: usageOf(await stream.usage) }
  }

  async function runTools(ctx, question) {
    const { generateText, jsonSchema, stepCountIs, tool } = await ctx.load('ai')
    const { name: called, description, schema } = ctx.data.stepTool
    let toolCalls = 0
    const execute = async (input) => {
      toolCalls++
      return ctx.doStep(input)
    }
    const tools = { [called]: tool({ description, inputSchema: jsonSchema(schema), execute }) }
    const { text } = await generateText({ ...(await settingsOf(ctx, question)), tools, stopWhen: stepCountIs(400) })
    return { text, toolCalls }
  }

  async function askObject(ctx, question) {
    const { generateText, jsonSchema, Output } = await ctx.load('ai')
    const output = Output.object({ schema: jsonSchema(ctx.data.person) })
    const answer = await generateText({ ...(await settingsOf(ctx, question)), output })
    return { text: answer.text, object: answer.output }
  }

  return {
    name: `AI SDK, ${name}`,
    packages: ['ai', ...packages],
    interface: spoken,
    scenarios: commonScenarios({ ask, read, runTools, askObject, hasStop }, missing),
  }
}
