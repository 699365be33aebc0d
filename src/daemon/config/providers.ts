import { z } from 'zod'
import { suggestion } from '../../shared/nearest-name.ts'
import type { BedrockConfig, EndpointConfig, ProviderConfig, VertexConfig } from '../models/config.ts'
import { ENDPOINT_KINDS, KINDS, WELL_KNOWN_PROVIDERS, type WellKnownProvider } from '../models/well-known-providers.ts'
import { BEDROCK, bedrockOfEnvironment, bedrockSettings } from './bedrock.ts'
import { readCertificates } from './certificates.ts'
import { pricesEntry } from './prices.ts'
import { apiKeys, offeredModels, offeredOf } from './provider-lists.ts'
import { parseProxy } from './proxies.ts'
import { resolveSecret, secretReference } from './secret.ts'
import { section, valueFrom } from './section.ts'
import type { ConfigSources } from './sources.ts'
import { timeoutsEntry } from './timeouts.ts'
import { parseApiKey, parseBaseUrl, ValueFault } from './values.ts'
import { projectOf, VERTEX, vertexSettings } from './vertex.ts'
import {
  knownApiVersion,
  knownBaseUrl,
  knownKey,
  knownKeyVariable,
  knowsAddress,
  parseApiVersion,
} from './well-known.ts'

const PROVIDER_NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9a-z-]+$/i
const WELL_KNOWN_NAMES = [...Object.keys(WELL_KNOWN_PROVIDERS), BEDROCK, VERTEX]
/** The format of a region. Policies use the same format. */
const REGION = /^[a-z0-9]+(-[a-z0-9]+)*$/
/** Headers that the HTTP client sets itself, for the connection or the body. */
const OUR_HEADERS = new Set([
  'connection',
  'content-length',
  'content-type',
  'expect',
  'host',
  'keep-alive',
  'transfer-encoding',
  'upgrade',
])

/**
 * Creates the schema of one entry under `providers:`, except `local`. The schema's output is the configuration of the
 * provider. The required keys depend on the entry's name and other keys, so each entry has its own schema.
 */
export function providerEntry(name: string, entry: unknown, sources: ConfigSources, configFile: string) {
  if (!PROVIDER_NAME.test(name)) {
    return z.never({
      error: 'must be a name of a-z, 0-9, dot, dash and underscore, because it is the first part of <provider>/<model>',
    })
  }
  const secret = (missing?: string) =>
    secretReference(missing).transform(valueFrom((reference) => resolveSecret(reference, sources, configFile)))
  const headers = z
    .record(z.string(), secret(), { error: 'must map header names to values' })
    .transform(valueFrom(checkHeaders))
  const proxy = secret().transform(valueFrom(parseProxy)).nullable()
  const { readFile } = sources
  const ca = z
    .string({ error: 'must be the path of a PEM file' })
    .transform(valueFrom((path) => readCertificates(path, { readFile, configFile })))
    .transform(valueFrom((certificates) => checkCa(certificates, entry)))
  const offer = {
    headers: headers.optional(),
    models: offeredModels(entry).optional(),
    prices: pricesEntry().optional(),
    timeouts: timeoutsEntry().optional(),
    proxy: proxy.optional(),
    ca: ca.optional(),
  }

  const given = { name, keys: new Set(isObject(entry) ? Object.keys(entry) : []) }
  const region = z
    .string('must be the name of a region, such as "eu" or "eu-west-1"')
    .regex(REGION, 'must be the name of a region in lower case, such as "eu" or "eu-west-1"')
    .optional()
  if ((kindIn(entry) ?? name) === VERTEX) {
    const kind = z.literal(VERTEX, `must be one of ${KINDS.join(', ')}`)
    return section(
      { kind: kind.optional(), ...vertexSettings(given, sources, secret), region, ...offer },
      'must be the settings of a provider, such as location',
    ).transform(
      valueFrom(
        (settings): VertexConfig => ({
          name,
          kind: VERTEX,
          publisher: settings.publisher ?? 'google',
          project: projectOf(settings.project, settings.credentials),
          location: settings.location,
          baseUrl: settings.base_url,
          credentials: settings.credentials?.credentials,
          headers: settings.headers ?? {},
          ...offeredOf(settings.models),
          ...(settings.prices && { prices: settings.prices }),
          ...(settings.timeouts && { timeouts: settings.timeouts }),
          ...(settings.region !== undefined && { region: settings.region }),
          ...connectionOf(settings),
        }),
      ),
    )
  }
  if ((kindIn(entry) ?? name) === BEDROCK) {
    const kind = z.literal(BEDROCK, `must be one of ${KINDS.join(', ')}`)
    return section(
      { kind: kind.optional(), ...bedrockSettings(given, sources.env, secret), ...offer },
      'must be the settings of a provider, such as region',
    ).transform(
      (settings): BedrockConfig => ({
        name,
        kind: BEDROCK,
        region: settings.region,
        baseUrl: settings.base_url,
        apiKey: settings.api_key,
        credentials: settings.credentials,
        headers: settings.headers ?? {},
        ...offeredOf(settings.models),
        ...(settings.prices && { prices: settings.prices }),
        ...(settings.timeouts && { timeouts: settings.timeouts }),
        ...connectionOf(settings),
      }),
    )
  }

  const wellKnown = findWellKnown(name, entry)
  const isAzure = (kindIn(entry) ?? wellKnown?.kind) === 'azure'
  const [keyVariable] = wellKnown?.keyVariables ?? []
  // The API key is optional at a custom address. A well-known provider requires an API key at its default address.
  const hasKeys = hasKey(entry, 'api_keys')
  const needsKey =
    keyVariable !== undefined && !hasKeys && !hasKey(entry, 'base_url') && !knownKeyVariable(wellKnown, sources.env)
  const kind = z.string({ error: `must be one of ${KINDS.join(', ')}` }).transform(valueFrom(checkKind))
  const apiKey = secret(`is missing; set it here or in the environment variable ${keyVariable}`)
  const checkedKey = apiKey.transform(valueFrom(parseApiKey))
  const baseUrl = z
    .string({
      error: ({ input }) => (input === undefined ? noAddress(name, isAzure, wellKnown) : 'must be a URL in quotes'),
    })
    .transform(valueFrom(parseBaseUrl))

  return section(
    {
      kind: kind.optional(),
      base_url:
        wellKnown && knowsAddress(wellKnown, sources.env)
          ? baseUrl.optional().transform(valueFrom((url) => url ?? knownBaseUrl(wellKnown, sources.env)))
          : baseUrl,
      api_key: needsKey
        ? checkedKey
        : checkedKey
            .optional()
            .transform(
              valueFrom((key) => key ?? (hasKeys ? undefined : wellKnown && knownKey(wellKnown, sources.env))),
            ),
      api_keys: apiKeys(entry, checkedKey).optional(),
      api_version: z
        .string('must be a date in quotes, such as "2024-10-21"')
        .optional()
        .transform(valueFrom((version) => checkApiVersion(version, isAzure, wellKnown, sources.env))),
      api: z
        .enum(['chat', 'responses'], 'must be "chat" or "responses"')
        .optional()
        .transform(valueFrom((api) => checkApi(api, kindIn(entry) ?? wellKnown?.kind ?? 'openai'))),
      region,
      ...offer,
    },
    'must be the settings of a provider, such as api_key',
  ).transform(
    (settings): EndpointConfig => ({
      name,
      kind: settings.kind ?? wellKnown?.kind ?? 'openai',
      baseUrl: settings.base_url,
      apiKey: settings.api_keys?.[0]?.key ?? settings.api_key,
      ...(settings.api_keys && settings.api_keys.length > 1 && { apiKeys: settings.api_keys }),
      headers: settings.headers ?? {},
      ...offeredOf(settings.models),
      ...(settings.prices && { prices: settings.prices }),
      ...(settings.timeouts && { timeouts: settings.timeouts }),
      ...(settings.api_version !== undefined && { apiVersion: settings.api_version }),
      ...(settings.api !== undefined && { api: settings.api }),
      ...(settings.region !== undefined && { region: settings.region }),
      ...connectionOf(settings),
    }),
  )
}

const connectionOf = ({ proxy, ca }: { proxy?: string | null | undefined; ca?: string | undefined }) => ({
  ...(proxy !== undefined && { proxy }),
  ...(ca !== undefined && { ca }),
})

function checkCa(certificates: string, entry: unknown): string {
  if (isObject(entry) && 'base_url' in entry && /^http:/i.test(String(entry.base_url)))
    throw new ValueFault('applies only to https, but base_url is an http URL; remove it')
  return certificates
}

/** The well-known providers that the environment configures completely and that the file does not name. */
export function providersFromEnvironment(
  env: ConfigSources['env'],
  named: readonly string[],
): { providers: ProviderConfig[]; faults: string[] } {
  const providers: ProviderConfig[] = []
  const faults: string[] = []
  const add = (name: string, find: () => ProviderConfig | undefined) => {
    if (named.includes(name)) return
    try {
      const provider = find()
      if (provider) providers.push(provider)
    } catch (error) {
      if (!(error instanceof ValueFault)) throw error
      faults.push(`provider ${name}: ${error.message}`)
    }
  }
  for (const [name, wellKnown] of Object.entries(WELL_KNOWN_PROVIDERS)) {
    add(name, () => wellKnownOfEnvironment(name, wellKnown, env))
  }
  add(BEDROCK, () => bedrockOfEnvironment(env))
  return { providers, faults }
}

function wellKnownOfEnvironment(
  name: string,
  wellKnown: WellKnownProvider,
  env: ConfigSources['env'],
): EndpointConfig | undefined {
  if (!knownKeyVariable(wellKnown, env) || !knowsAddress(wellKnown, env)) return undefined
  const apiVersion = knownApiVersion(wellKnown, env)
  return {
    name,
    kind: wellKnown.kind,
    baseUrl: knownBaseUrl(wellKnown, env),
    apiKey: knownKey(wellKnown, env),
    headers: {},
    models: undefined,
    ...(apiVersion !== undefined && { apiVersion }),
  }
}

/**
 * Returns the well-known provider with the entry's name, unless the entry sets a different kind. Otherwise returns the
 * well-known provider whose name is the entry's kind. An entry with its own `base_url` is not matched by kind: the
 * address might not belong to the company whose key would be sent.
 */
function findWellKnown(name: string, entry: unknown): WellKnownProvider | undefined {
  const kind = kindIn(entry)
  const named = Object.hasOwn(WELL_KNOWN_PROVIDERS, name) ? WELL_KNOWN_PROVIDERS[name] : undefined
  if (named && (kind === undefined || kind === named.kind)) return named
  if (kind === undefined || kind === 'openai' || hasKey(entry, 'base_url')) return undefined
  return Object.hasOwn(WELL_KNOWN_PROVIDERS, kind) ? WELL_KNOWN_PROVIDERS[kind] : undefined
}

function checkApi(api: EndpointConfig['api'], kind: string): EndpointConfig['api'] {
  if (api !== undefined && kind !== 'openai' && kind !== 'azure')
    throw new ValueFault('applies only to kind: openai and kind: azure; remove it')
  return api
}

function checkApiVersion(
  version: string | undefined,
  isAzure: boolean,
  wellKnown: WellKnownProvider | undefined,
  env: ConfigSources['env'],
): string | undefined {
  if (version === undefined) return isAzure && wellKnown ? knownApiVersion(wellKnown, env) : undefined
  if (!isAzure) throw new ValueFault('applies only to kind: azure; remove it')
  return parseApiVersion(version)
}

/** Validates the kind of an entry. Entries of kind `bedrock` are validated elsewhere. */
function checkKind(kind: string): (typeof ENDPOINT_KINDS)[number] {
  const known = ENDPOINT_KINDS.find((one) => one === kind)
  if (known) return known
  if (kind === 'local') throw new ValueFault('local is reserved for the built-in provider "local"; use another kind')
  throw new ValueFault(`"${kind}" is not a kind of provider${suggestion(kind, KINDS)}; use one of ${KINDS.join(', ')}`)
}

const noAddress = (name: string, isAzure: boolean, wellKnown: WellKnownProvider | undefined): string =>
  isAzure
    ? 'is missing; set the URL of your resource, such as https://NAME.openai.azure.com'
    : wellKnown
      ? `is missing; set the URL of your account, because ${name} has a separate URL for each customer`
      : `is missing; set the URL of the server, because "${name}" is not a well-known provider${suggestion(
          name,
          WELL_KNOWN_NAMES.filter((known) => known !== name),
        )}`

/** Checks the headers that an operator adds to calls. Throws ValueFault. */
export function checkHeaders(headers: Record<string, string>): Record<string, string> {
  for (const [name, value] of Object.entries(headers)) {
    if (!HEADER_NAME.test(name)) throw new ValueFault(`"${name}" is not a valid header name`)
    if (OUR_HEADERS.has(name.toLowerCase())) throw new ValueFault(`${name} is set by the daemon; remove it`)
    if (!/^[\x20-\x7e]+$/.test(value))
      throw new ValueFault(`the value of ${name} contains characters that are not allowed in a header`)
  }
  return headers
}

function kindIn(entry: unknown): string | undefined {
  const kind = isObject(entry) && 'kind' in entry ? entry.kind : undefined
  return typeof kind === 'string' ? kind : undefined
}

const isObject = (entry: unknown): entry is object => typeof entry === 'object' && entry !== null

const hasKey = (entry: unknown, key: string): boolean => isObject(entry) && Object.hasOwn(entry, key)
