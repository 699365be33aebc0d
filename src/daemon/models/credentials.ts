import { parseUrl } from '../../shared/url.ts'
import type { ProviderConfig } from './config.ts'
import type { ProxySettings } from './proxy.ts'

/** The part of the configuration that contains credentials and addresses of providers. */
export type CredentialConfig = {
  providers: readonly ProviderConfig[]
  proxies?: ProxySettings | undefined
}

/** What a provider may repeat in an error, although callers must not learn it. */
export type ConfiguredSecrets = {
  /** Keys, passwords and configured headers. */
  credentials: readonly string[]
  /** Hosts and their ports. */
  hosts: readonly string[]
}

/** Returns the credentials and the hosts that calls to providers use. */
export function secretsOf({ providers, proxies = {} }: CredentialConfig): ConfiguredSecrets {
  const addresses = [proxies.http, proxies.https, ...providers.flatMap(({ baseUrl, proxy }) => [baseUrl, proxy])]
  const urls = addresses.flatMap((address) => (address && parseUrl(address)) || [])
  const ofProviders = providers.flatMap((provider) => {
    const { accessKeyId, secretAccessKey, sessionToken } = (provider.kind === 'bedrock' && provider.credentials) || {}
    const keys = 'apiKeys' in provider ? (provider.apiKeys ?? []) : []
    const { privateKey } = (provider.kind === 'vertex' && provider.credentials) || {}
    return [
      ...keys.map(({ key }) => key),
      provider.apiKey,
      accessKeyId,
      secretAccessKey,
      sessionToken,
      privateKey,
      ...Object.values(provider.headers),
    ]
  })
  const ofUrls = urls.flatMap(({ username, password, search }) => [username, password, search].map(decoded))
  const credentials = [...ofProviders, ...ofUrls].flatMap((value) => value || [])
  return { credentials: [...new Set(credentials)], hosts: [...new Set(urls.map(({ host }) => host))] }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
