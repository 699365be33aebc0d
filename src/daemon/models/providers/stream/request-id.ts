import type { IncomingHttpHeaders } from 'node:http'

/**
 * The headers that contain the provider's request id, the most frequent first. A successful response costs one lookup
 * with most providers.
 */
const REQUEST_IDS = [
  // OpenAI, Groq, xAI, Azure, and most servers that implement OpenAI's interface.
  'x-request-id',
  // Anthropic.
  'request-id',
  // Amazon Bedrock.
  'x-amzn-requestid',
  // Azure's API management.
  'apim-request-id',
  // Google, if a proxy or Vertex AI sends one. The Gemini API sends none.
  'x-goog-request-id',
  // Mistral.
  'mistral-correlation-id',
  // DeepSeek.
  'x-ds-trace-id',
  // NVIDIA.
  'nvcf-reqid',
  // Cohere.
  'x-debug-trace-id',
  // Cloudflare, which many providers use. Its support can find the request if the provider's own id is missing.
  'cf-ray',
] as const
/** Only these characters are allowed in a request id, because the id is logged and stored as JSON. */
const REQUEST_ID = /^[\w.:/+=-]{1,128}$/

/** Returns the provider's request id, or undefined if the response has no valid id. */
export function requestIdOf(headers: IncomingHttpHeaders): string | undefined {
  for (const name of REQUEST_IDS) {
    const value = headers[name]
    if (typeof value === 'string' && REQUEST_ID.test(value)) return value
  }
  return undefined
}
