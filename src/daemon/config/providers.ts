import { z } from 'zod'
import type { ConfigSources, ProviderConfig } from '../config.ts'
import { resolveSecret, secretReference } from './secret.ts'
import { section, valueFrom } from './section.ts'
import { suggestion } from './suggestion.ts'
import { parseApiKey, parseBaseUrl, ValueFault } from './values.ts'
import { LATER_KINDS, WELL_KNOWN_PROVIDERS, type WellKnownProvider } from './well-known-providers.ts'

const PROVIDER_NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9a-z-]+$/i
const LATER_KEYS = ['prices']
/** Headers that belong to the connection or to the body we write. */
const OUR_HEADERS = new Set(['connection', 'content-length', 'content-type', 'host', 'transfer-encoding', 'upgrade'])

/**
 * The schema of one entry under `providers:`. Its output is what the registry is given, or undefined for `local`, which
 * is part of the daemon. What an entry must hold depends on its name and its other keys, hence a schema for each.
 */
export function providerEntry(name: string, entry: unknown, sources: ConfigSources, configFile: string) {
  if (!PROVIDER_NAME.test(name)) {
    return z.never({
      error: 'must be a name of a-z, 0-9, dot, dash and underscore: it is the first part of <provider>/<model>',
    })
  }
  const kind = z.string({ error: 'must be openai' }).transform(valueFrom((text) => checkKind(name, text)))
  if (name === 'local') {
    return section({ kind: kind.optional() }, 'is part of the daemon and takes no settings').transform(() => undefined)
  }
  if (LATER_KINDS.includes(name) && !hasKey(entry, 'kind')) {
    return z.unknown().transform(valueFrom((): undefined => notSupported(name)))
  }

  const wellKnown = Object.hasOwn(WELL_KNOWN_PROVIDERS, name) ? WELL_KNOWN_PROVIDERS[name] : undefined
  const keyVariable = wellKnown?.keyVariable
  // An address of one's own may well be a server that wants no key; the known ones always do.
  const needsKey = keyVariable !== undefined && !sources.env[keyVariable] && !hasKey(entry, 'base_url')
  const secret = (missing?: string) =>
    secretReference(missing).transform(valueFrom((reference) => resolveSecret(reference, sources, configFile)))
  const apiKey = secret(`is missing; give it here or in the environment variable ${keyVariable}`)
  const checkedKey = apiKey.transform(valueFrom(parseApiKey))
  const baseUrl = z
    .string({ error: ({ input }) => (input === undefined ? noAddress(name) : 'must be a URL in quotes') })
    .transform(valueFrom(parseBaseUrl))
  const modelName = z.string().min(1, { abort: true })
  const aModel = 'must be the name of a model, or {id: NAME}'
  const model = z.union([modelName, section({ id: modelName }, aModel)], { error: aModel })
  const headers = z
    .record(z.string(), secret(), { error: 'must be header names, each with its value' })
    .transform(valueFrom(checkHeaders))

  return section(
    {
      kind: kind.optional(),
      base_url: wellKnown
        ? baseUrl.optional().transform(valueFrom((url) => url ?? knownBaseUrl(wellKnown, sources.env)))
        : baseUrl,
      api_key: needsKey
        ? checkedKey
        : checkedKey.optional().transform(valueFrom((key) => key ?? (wellKnown && knownKey(wellKnown, sources.env)))),
      headers: headers.optional(),
      models: z
        .array(model, { error: 'must be a list of model names' })
        .min(1, 'is empty; name a model, or leave it out to pass every name on')
        .optional(),
    },
    'must be the settings of a provider, such as api_key',
    LATER_KEYS,
  ).transform(
    (settings): ProviderConfig => ({
      name,
      kind: 'openai',
      baseUrl: settings.base_url,
      apiKey: settings.api_key,
      headers: settings.headers ?? {},
      models: settings.models?.map((model) => (typeof model === 'string' ? model : model.id)),
    }),
  )
}

/** The well-known providers that the file does not name and whose usual key variable is set. */
export function providersFromEnvironment(
  env: ConfigSources['env'],
  named: readonly string[],
): { providers: ProviderConfig[]; faults: string[] } {
  const providers: ProviderConfig[] = []
  const faults: string[] = []
  for (const [name, wellKnown] of Object.entries(WELL_KNOWN_PROVIDERS)) {
    if (named.includes(name) || wellKnown.keyVariable === undefined || !env[wellKnown.keyVariable]) continue
    try {
      providers.push({
        name,
        kind: 'openai',
        baseUrl: knownBaseUrl(wellKnown, env),
        apiKey: knownKey(wellKnown, env),
        headers: {},
        models: undefined,
      })
    } catch (error) {
      if (!(error instanceof ValueFault)) throw error
      faults.push(`provider ${name}: ${error.message}`)
    }
  }
  return { providers, faults }
}

function knownBaseUrl({ baseUrl, baseUrlVariable }: WellKnownProvider, env: ConfigSources['env']): string {
  const elsewhere = baseUrlVariable === undefined ? undefined : env[baseUrlVariable]
  return elsewhere ? ofVariable(baseUrlVariable, () => parseBaseUrl(elsewhere)) : baseUrl
}

function knownKey({ keyVariable }: WellKnownProvider, env: ConfigSources['env']): string | undefined {
  const key = keyVariable === undefined ? undefined : env[keyVariable]
  return key ? ofVariable(keyVariable, () => parseApiKey(key)) : undefined
}

function ofVariable<T>(variable: string | undefined, parse: () => T): T {
  try {
    return parse()
  } catch (error) {
    if (error instanceof ValueFault) throw new ValueFault(`environment variable ${variable} ${error.message}`)
    throw error
  }
}

function checkKind(name: string, kind: string): string {
  if (name === 'local') {
    if (kind !== 'local') throw new ValueFault('must be local; choose another name for a provider of your own')
    return kind
  }
  if (kind === 'openai') return kind
  if (kind === 'local')
    throw new ValueFault('local is the kind of the built-in provider "local" alone, which is always there')
  if (LATER_KINDS.includes(kind)) return notSupported(kind)
  throw new ValueFault(`"${kind}" is not a kind of provider${suggestion(kind, ['openai'])}; use openai`)
}

function notSupported(kind: string): never {
  throw new ValueFault(
    `kind ${kind} is not supported by this version; use kind: openai with the base_url of an OpenAI-compatible interface`,
  )
}

const noAddress = (name: string): string =>
  `is missing; only well-known names have an address of their own, and "${name}" is none${suggestion(name, Object.keys(WELL_KNOWN_PROVIDERS))}`

function checkHeaders(headers: Record<string, string>): Record<string, string> {
  for (const [name, value] of Object.entries(headers)) {
    if (!HEADER_NAME.test(name)) throw new ValueFault(`"${name}" is not a header name`)
    if (OUR_HEADERS.has(name.toLowerCase())) throw new ValueFault(`${name} is set by the daemon; remove it`)
    if (!/^[\x20-\x7e]+$/.test(value)) throw new ValueFault(`the value of ${name} holds characters that no header may`)
  }
  return headers
}

const hasKey = (entry: unknown, key: string): boolean =>
  typeof entry === 'object' && entry !== null && Object.hasOwn(entry, key)
