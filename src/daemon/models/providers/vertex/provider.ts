// The HTTP calls of Vertex AI, for models of Google and of Anthropic.
import type { VertexConfig } from '../../config.ts'
import type { ProviderDeps } from '../../pool.ts'
import type { OnHead, Provider, ProviderCall } from '../../provider.ts'
import { type AnthropicProvider, speakMessages } from '../anthropic/provider.ts'
import { type GoogleProvider, hasVersion, speakGemini } from '../google/provider.ts'
import { toGoogleRequest } from '../google/request.ts'
import type { Authorized } from '../stream/upstream.ts'
import { vertexBaseUrl } from './address.ts'
import { toPredictRequest, toVertexEmbeddings } from './embeddings.ts'
import { type AccessTokens, createAccessTokens } from './tokens.ts'

export type VertexOptions = Pick<
  VertexConfig,
  'name' | 'headers' | 'models' | 'project' | 'location' | 'baseUrl' | 'credentials'
>

/** The version of the Messages API on Vertex AI. */
const ANTHROPIC_VERSION = 'vertex-2023-10-16'

/**
 * Gemini on Vertex AI. The requests are those of the Gemini API, except for token counts and embeddings. A version is
 * appended to `baseUrl`, unless `baseUrl` already ends with one.
 */
export function geminiOnVertex(options: VertexOptions, deps: ProviderDeps): GoogleProvider {
  const { usual, authorized, tokens, pathOf } = openVertex(options, deps)
  // Google's own clients use this version for Gemini.
  const models = pathOf('v1beta1', 'google')
  const provider = speakGemini(usual, deps, {
    toPath: (model) => `${models}/${segmentOf(model)}`,
    authorized,
    toCountRequest,
    embedding: { operation: 'predict', toRequest: toPredictRequest, toEmbeddings: toVertexEmbeddings },
  })
  return {
    ...withTokens(provider, tokens),
    countTokens: (call, signal) => provider.countTokens(watched(call, tokens), signal),
    embed: (call, signal) => provider.embed(watched(call, tokens), signal),
  }
}

/** Claude on Vertex AI. The model is a part of the path, and the version a part of the body. */
export function claudeOnVertex(options: VertexOptions, deps: ProviderDeps): AnthropicProvider {
  const { usual, authorized, tokens, pathOf } = openVertex(options, deps)
  const models = pathOf('v1', 'anthropic')
  const provider = speakMessages(usual, deps, {
    toPath: ({ model, stream }) => `${models}/${segmentOf(model)}:${stream ? 'streamRawPredict' : 'rawPredict'}`,
    countPath: `${models}/count-tokens:rawPredict`,
    authorized,
    toBody: (body, operation) => ({
      anthropic_version: ANTHROPIC_VERSION,
      ...body,
      ...(operation === 'chat' && { model: undefined }),
    }),
  })
  return {
    ...withTokens(provider, tokens),
    countTokens: (call, signal) => provider.countTokens(watched(call, tokens), signal),
  }
}

function openVertex(options: VertexOptions, deps: ProviderDeps) {
  const { project, location, credentials, baseUrl = vertexBaseUrl(location) } = options
  // A configured authorization header overrides the credentials.
  const isAuthorized = Object.keys(options.headers).some((name) => name.toLowerCase() === 'authorization')
  const tokens = credentials && !isAuthorized ? createAccessTokens(credentials, deps) : undefined
  const authorized: Authorized = tokens?.authorized ?? ((headers, make) => make(headers))
  const path = new URL(baseUrl).pathname.replace(/\/+$/, '')
  return {
    usual: { ...options, baseUrl, apiKey: undefined },
    authorized,
    tokens,
    /** The path of a publisher's models. */
    pathOf: (version: string, publisher: string) =>
      `${hasVersion(path) ? path : `${path}/${version}`}/projects/${encodeURIComponent(project)}/locations/${location}/publishers/${publisher}/models`,
  }
}

/** Drops a token that the server rejects. The token may have been revoked before its end. */
function watched<Call extends { onHead?: OnHead | undefined }>(call: Call, tokens: AccessTokens | undefined): Call {
  if (!tokens) return call
  const onHead: OnHead = (head) => {
    if (head.status === 401) tokens.forget()
    call.onHead?.(head)
  }
  return { ...call, onHead }
}

const withTokens = <P extends Provider>(provider: P, tokens: AccessTokens | undefined): P => ({
  ...provider,
  chat: (call: ProviderCall, signal: AbortSignal) => provider.chat(watched(call, tokens), signal),
  async close() {
    await Promise.all([provider.close(), tokens?.close()])
  },
})

/** Encodes the model as one path segment. Names of Claude models contain @, which a path may contain. */
const segmentOf = (model: string): string => encodeURIComponent(model).replaceAll('%40', '@')

/** The members of a chat that the API counts. It rejects all others. */
function toCountRequest(call: ProviderCall): object {
  const request = new Map(Object.entries(toGoogleRequest(call)))
  return Object.fromEntries(COUNTED.map((name) => [name, request.get(name)]))
}

const COUNTED = ['contents', 'systemInstruction', 'tools', 'generationConfig'] as const
