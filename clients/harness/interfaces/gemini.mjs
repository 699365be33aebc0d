// Gemini's generateContent: what a request says, and how an answer looks.
import { dataUrl, sse } from './wire.mjs'

export const path = /^\/v1(?:beta)?\/models\/[^:]+:(generateContent|streamGenerateContent|countTokens)$/

/** Returns the error of a request that Google would reject. */
export function refusal(body, headers, url) {
  if (!headers['x-goog-api-key'] && !url.searchParams.has('key')) return 'API key not valid.'
  if (!Array.isArray(contentsOf(body)) || contentsOf(body).length === 0) return 'contents is not specified'
  if (url.pathname.endsWith(':streamGenerateContent') && url.searchParams.get('alt') !== 'sse')
    return 'the simulated provider streams only with alt=sse'
}

export const error = (status, message) => ({ error: { code: status, message, status: 'INVALID_ARGUMENT' } })

const contentsOf = (body) => body.contents ?? body.generateContentRequest?.contents
/** Google accepts members in camelCase and in snake_case. */
const member = (value, camel) =>
  value?.[camel] ?? value?.[camel.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)]

function partOf(part) {
  const inline = member(part, 'inlineData')
  const file = member(part, 'fileData')
  const call = member(part, 'functionCall')
  const result = member(part, 'functionResponse')
  if (part.text !== undefined) return { kind: 'text', text: part.text }
  if (inline) {
    const mime = member(inline, 'mimeType')
    return { kind: mime.startsWith('image/') ? 'image' : 'file', url: dataUrl(mime, inline.data) }
  }
  if (file) {
    const isImage = member(file, 'mimeType')?.startsWith('image/')
    return { kind: isImage ? 'image' : 'file', url: member(file, 'fileUri') }
  }
  // Calls have no id. A result is matched to its call by name and order.
  if (call) return { kind: 'call', name: call.name }
  if (result) return { kind: 'result', name: result.name, text: JSON.stringify(result.response) }
  return { kind: 'other', type: Object.keys(part).join() }
}

const turnOf = ({ role, parts }) => ({
  role: role === 'model' ? 'assistant' : (role ?? 'user'),
  parts: parts.map(partOf),
})

/** The facts of a request, in the form that all interfaces share. */
export function read(body, url) {
  const system = member(body, 'systemInstruction')
  const config = member(body, 'generationConfig') ?? {}
  const tools = body.tools ?? []
  const calling = member(member(body, 'toolConfig'), 'functionCallingConfig')
  const declared = tools.flatMap((tool) => member(tool, 'functionDeclarations') ?? [])
  const contents = contentsOf(body)
  return {
    model: decodeURIComponent(/models\/([^:]+):/.exec(url.pathname)[1]),
    stream: url.pathname.endsWith(':streamGenerateContent'),
    turns: [...(system ? [{ ...system, role: 'system' }] : []), ...contents].map(turnOf),
    tools: declared.map(({ name }) => name),
    forcedTool:
      calling?.mode === 'ANY' ? (member(calling, 'allowedFunctionNames')?.[0] ?? declared[0]?.name) : undefined,
    schema: member(config, 'responseJsonSchema') ?? member(config, 'responseSchema'),
    maxTokens: member(config, 'maxOutputTokens'),
    stop: member(config, 'stopSequences') ?? [],
    blocks: [...(system ? [system] : []), ...tools, ...contents].map((block) => JSON.stringify(block)),
  }
}

const usageOf = ({ input, output, cached }) => ({
  promptTokenCount: input,
  candidatesTokenCount: output,
  totalTokenCount: input + output,
  ...(cached > 0 && { cachedContentTokenCount: cached }),
  promptTokensDetails: [{ modality: 'TEXT', tokenCount: input }],
})

const FINISH = { stop: 'STOP', stop_sequence: 'STOP', length: 'MAX_TOKENS', calls: 'STOP' }
const callOf = ({ name, input }) => ({ functionCall: { name, args: input } })

const answerOf = ({ id, model }, parts, usage, finishReason) => ({
  candidates: [{ content: { parts, role: 'model' }, ...(finishReason && { finishReason }), index: 0 }],
  usageMetadata: usageOf(usage),
  modelVersion: model,
  responseId: id,
})

export function whole({ answer, head, usage }) {
  const parts = [...(answer.text ? [{ text: answer.text }] : []), ...answer.calls.map(callOf)]
  return answerOf(head, parts, usage, FINISH[answer.finish])
}

export const tokens = ({ input }) => ({
  totalTokens: input,
  promptTokensDetails: [{ modality: 'TEXT', tokenCount: input }],
})

export function stream({ head, usage }) {
  return {
    open: () => '',
    piece: (text) => sse(answerOf(head, [{ text }], { ...usage, output: 1 })),
    close: ({ calls, finish }, total) => {
      const parts = calls.length ? calls.map(callOf) : [{ text: '' }]
      return sse(answerOf(head, parts, total, FINISH[finish]))
    },
  }
}
