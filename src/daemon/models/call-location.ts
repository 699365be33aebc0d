import type { ProviderConfig } from './config.ts'
import type { CallLocation } from './provider.ts'
import { bedrockBaseUrl } from './providers/bedrock/address.ts'
import { vertexBaseUrl } from './providers/vertex/address.ts'

/** Returns a function from a model's name at the provider to the location where calls to the model are processed. */
export function locationsOf(config: ProviderConfig): (model: string) => CallLocation {
  if (config.kind === 'local') return () => 'here'
  const region = config.region?.toLowerCase()
  if (config.kind === 'vertex') {
    const { location: place, baseUrl = vertexBaseUrl(place) } = config
    // Google chooses the region of calls to the global location.
    const location = { host: hostOf(baseUrl), region: region ?? (place === 'global' ? undefined : place) }
    return () => location
  }
  if (config.kind !== 'bedrock') {
    const location = { host: hostOf(config.baseUrl), region }
    return () => location
  }
  const host = hostOf(config.baseUrl ?? bedrockBaseUrl(config.region))
  return (model) => ({ host, region: bedrockRegion(model, config.region) })
}

const hostOf = (url: string): string => new URL(url).hostname

/**
 * Maps prefixes of inference profile ids to geographies. Amazon distributes the calls of a profile over the regions of
 * its geography.
 */
const GEOGRAPHIES: Readonly<Record<string, string>> = {
  eu: 'eu',
  us: 'us',
  'us-gov': 'us-gov',
  apac: 'ap',
  jp: 'ap',
  au: 'ap',
  ca: 'ca',
}

/**
 * Returns the region where Bedrock processes a call: the configured region, unless an inference profile routes the call
 * elsewhere. Undefined for application profiles and global profiles, because their names do not contain a region.
 */
function bedrockRegion(model: string, region: string): string | undefined {
  if (model.includes(':application-inference-profile/')) return undefined
  const id = model.slice(model.lastIndexOf('/') + 1)
  const prefix = id.slice(0, id.indexOf('.'))
  if (prefix === 'global') return undefined
  return GEOGRAPHIES[prefix] ?? region
}
