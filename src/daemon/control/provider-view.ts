// How a provider is shown. No secret is part of it.
import type { Provider } from '../../shared/wire/providers.ts'
import type { ProviderConfig } from '../models/config.ts'
import type { StoredProvider } from './configuration.ts'

const NOTHING = {
  ...{ kind: null, base_url: null, api_version: null, api: null, region: null, models: null },
  ...{ location: null, project: null, publisher: null, prices: null, timeouts: null },
} as const

/** A provider of the configuration file or of the environment. Its prices and time limits are in the file. */
export function ofFile(config: ProviderConfig): Provider {
  const { name, kind, headers } = config
  const has = {
    api_key: config.apiKey,
    credentials: 'credentials' in config && config.credentials,
    proxy: config.proxy,
  }
  return {
    ...NOTHING,
    ...{ id: name, name, source: 'file', inUse: true, problem: null },
    secrets: secretsIn({ ...has, headers }),
    kind,
    base_url: config.baseUrl ?? null,
    region: config.region ?? null,
    models: config.models ? [...config.models] : null,
    ...('apiVersion' in config && { api_version: config.apiVersion ?? null, api: config.api ?? null }),
    ...(kind === 'vertex' && { location: config.location, project: config.project, publisher: config.publisher }),
    ...{ createdAt: null, updatedAt: null },
  }
}

/** @param isShadowed whether the configuration of this daemon defines the same name */
export function ofStore({ row, settings = {}, config, problem }: StoredProvider, isShadowed: boolean): Provider {
  const { name, created_at: createdAt, updated_at: updatedAt } = row
  const shown = Object.keys(NOTHING).map((member) => [member, settings[member] ?? null] as const)
  return {
    ...NOTHING,
    ...Object.fromEntries(shown),
    ...{ id: name, name, source: 'store', inUse: config !== undefined && !isShadowed },
    kind: config?.kind ?? null,
    base_url: config?.baseUrl ?? null,
    problem:
      problem ?? (isShadowed ? 'The configuration of this daemon defines the same name, and takes precedence.' : null),
    secrets: secretsIn(settings),
    ...{ createdAt, updatedAt },
  }
}

function secretsIn({ headers, ...settings }: Readonly<Record<string, unknown>>): string[] {
  const names = ['api_key', 'credentials', 'proxy'].filter((name) => settings[name])
  return [...names, ...Object.keys(headers ?? {}).map((name) => `headers.${name}`)]
}
