// The HTTP calls of OpenAI, Azure OpenAI and compatible servers.
import { createPacer, runInSlices } from '../../../platform/pacing.ts'
import type { EndpointConfig } from '../../config.ts'
import { OPENAI_ORIGIN, RESPONSES_ORIGIN } from '../../conversation.ts'
import { CUSTOM_TOOLS, GRAMMARS } from '../../custom-tools.ts'
import { withNoTraining } from '../../no-training.ts'
import type { FamilyRoute } from '../../openai-family.ts'
import { openPool, type ProviderDeps } from '../../pool.ts'
import { ALLOWED_TOOLS, type Provider, type ProviderCall, SEVERAL_CHOICES } from '../../provider.ts'
import { withOneCall } from '../stream/one-call.ts'
import { readAnswer, readJson } from '../stream/read-answer.ts'
import { governed, jsonRequest, type RequestSource } from '../stream/upstream.ts'
import { openAiFormat } from './answer.ts'
import { toEmbeddings, toEmbeddingsRequest } from './embeddings.ts'
import { toModerations } from './moderations.ts'
import { hasCustomTools, isShared, rejectsOption, WEB_SEARCH } from './native.ts'
import { mayHaveRoute, type Profile, profilesOf } from './profiles.ts'
import { toOpenAiFields, toOpenAiRequest } from './request.ts'
import { toReranked, toRerankRequest } from './rerank.ts'
import { responsesFormat } from './responses/answer.ts'
import { toResponsesRequest } from './responses/request.ts'

export type OpenAiOptions = Pick<EndpointConfig, 'name' | 'baseUrl' | 'apiKey' | 'headers' | 'models' | 'api'>
export type AzureOptions = OpenAiOptions & Pick<EndpointConfig, 'apiVersion'>

/**
 * A server that implements OpenAI's chat completions or its Responses API. `/chat/completions` or `/responses` is
 * appended to the path of `baseUrl`, which is otherwise unchanged.
 */
export function openAiProvider(options: OpenAiOptions, deps: ProviderDeps): Provider {
  const path = pathOf(options.baseUrl)
  const key = options.apiKey === undefined ? undefined : (['authorization', `Bearer ${options.apiKey}`] as const)
  return speakOpenAi(options, deps, { profileName: options.name, key, toPath: (_, operation) => path + operation })
}

/**
 * An Azure OpenAI resource. Its deployments are the models. If `apiVersion` is a date, each deployment has its own URL.
 * Otherwise, or if `baseUrl` ends with `/openai/v1`, all models share the URL `/openai/v1`.
 */
export function azureProvider(options: AzureOptions, deps: ProviderDeps): Provider {
  const { baseUrl, apiVersion = '', apiKey } = options
  const path = pathOf(baseUrl)
  const isDated = /^\d/.test(apiVersion) && !path.endsWith('/openai/v1')
  const resource = path.replace(/\/openai(\/v1)?$/, '')
  // The undated API accepts versions such as `preview`, but rejects dates.
  const query = apiVersion !== '' && isDated === /^\d/.test(apiVersion) ? `?api-version=${apiVersion}` : ''
  return speakOpenAi(options, deps, {
    profileName: 'azure',
    key: apiKey === undefined ? undefined : ['api-key', apiKey],
    toPath(model, operation) {
      if (!isDated) return `${resource}/openai/v1${operation}${query}`
      // The dated Responses API has one URL for all deployments.
      const deployment = operation === RESPONSES ? '' : `/deployments/${encodeURIComponent(model)}`
      return `${resource}/openai${deployment}${operation}${query}`
    },
  })
}

const RESPONSES = '/responses'
type Operation = '/chat/completions' | typeof RESPONSES | '/embeddings' | '/rerank' | '/moderations'

type Ways = {
  profileName: string
  /** The header that carries the API key. */
  key: readonly [name: string, value: string] | undefined
  toPath(model: string, operation: Operation): string
}

function speakOpenAi(
  options: OpenAiOptions,
  { clock, connect = openPool }: ProviderDeps,
  { profileName, key, toPath }: Ways,
): Provider {
  const profileOf = profilesOf(profileName, options.baseUrl)
  const usualHeaders = requestHeaders(options.headers, key)
  const privateHeaders = withNoTraining(usualHeaders)
  const headersOf = ({ noTraining }: { noTraining?: boolean | undefined }) =>
    noTraining ? privateHeaders : usualHeaders
  const pool = connect(options.baseUrl)

  function chatRequest(call: ProviderCall, profile: Profile): RequestSource {
    const [path, headers] = [toPath(call.model, '/chat/completions'), headersOf(call)]
    if (call.isLarge) return jsonRequest(call, { path, headers }, () => toOpenAiFields(call, profile))
    const body = toOpenAiRequest(call, profile)
    return { path, headers, body, governed: governed(call, body) }
  }

  function responsesRequest(call: ProviderCall, profile: Profile): RequestSource {
    const where = { path: toPath(call.model, RESPONSES), headers: headersOf(call) }
    return jsonRequest(call, where, () => toResponsesRequest(call, profile))
  }

  const routes: Required<Pick<Provider, 'embed' | 'rerank' | 'moderate'>> = {
    async embed(call, signal) {
      const where = { path: toPath(call.model, '/embeddings'), headers: headersOf(call) }
      const request = jsonRequest(call, where, () => toEmbeddingsRequest(call, profileOf(call.model)))
      const answer = await readJson({ pool, clock, request, attemptMs: call.attemptMs, onHead: call.onHead }, signal)
      return runInSlices(toEmbeddings(answer, call.input.length), createPacer())
    },
    async rerank(call, signal) {
      const where = { path: toPath(call.model, '/rerank'), headers: headersOf(call) }
      const request = jsonRequest(call, where, () => toRerankRequest(call))
      const answer = await readJson({ pool, clock, request, attemptMs: call.attemptMs, onHead: call.onHead }, signal)
      return toReranked(answer, call.documents.length)
    },
    async moderate(call, signal) {
      const where = { path: toPath(call.model, '/moderations'), headers: headersOf(call) }
      const request = jsonRequest(call, where, () => ({ model: call.model, input: call.input }))
      const answer = await readJson({ pool, clock, request, attemptMs: call.attemptMs, onHead: call.onHead }, signal)
      return toModerations(answer, call.input.length)
    },
  }

  const has = (route: FamilyRoute) => mayHaveRoute(profileName, options.baseUrl, route)
  const api = options.api === 'responses' ? RESPONSES_ORIGIN : OPENAI_ORIGIN
  return {
    name: options.name,
    models: options.models,
    // The API has no common option that disables reasoning.
    drops: ({ user, noReasoning }, model) => [
      ...(user !== undefined && profileOf(model).refusesUser ? (['user'] as const) : []),
      ...(noReasoning ? (['thinking'] as const) : []),
    ],
    origin: api,
    supports(option, model, origin) {
      if (option === ALLOWED_TOOLS) return profileOf(model).hasAllowedTools
      if (option === SEVERAL_CHOICES) return api === OPENAI_ORIGIN && !profileOf(model).lacks.includes('n')
      if (option === CUSTOM_TOOLS || GRAMMARS.has(option)) return hasCustomTools(model, profileOf(model))
      return isShared(option, origin) || (option === WEB_SEARCH && origin === OPENAI_ORIGIN && api === RESPONSES_ORIGIN)
    },
    rejects: (option, model) => rejectsOption(option, model, profileOf(model)),
    chat(call, signal) {
      const profile = profileOf(call.model)
      const answer = readAnswer(
        {
          pool,
          clock,
          request: options.api === 'responses' ? responsesRequest(call, profile) : chatRequest(call, profile),
          format: options.api === 'responses' ? responsesFormat(call, profile) : openAiFormat(call, profile),
          streamed: call.stream,
          timeouts: call.timeouts,
          onHead: call.onHead,
        },
        signal,
      )
      return profile.lacks.includes('parallel_tool_calls') ? withOneCall(call, answer) : answer
    },
    ...(has('embeddings') && { embed: routes.embed }),
    ...(has('rerank') && { rerank: routes.rerank }),
    ...(has('moderations') && { moderate: routes.moderate }),
    close: () => pool.destroy(),
  }
}

const pathOf = (baseUrl: string) => new URL(baseUrl).pathname.replace(/\/+$/, '')

/** Alternating names and values. Configured headers override ours. */
function requestHeaders(configured: EndpointConfig['headers'], key: Ways['key']): string[] {
  const merged = new Map([
    ['content-type', 'application/json'],
    // Requests uncompressed responses: the gateway cannot decompress them, and some proxies compress by default.
    ['accept-encoding', 'identity'],
    ['user-agent', 'aigw'],
  ])
  if (key) merged.set(...key)
  for (const [name, value] of Object.entries(configured)) merged.set(name.toLowerCase(), value)
  return [...merged].flat()
}
