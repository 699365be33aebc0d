import type { ProviderConfig } from './config.ts'
import { bedrockBaseUrl } from './providers/bedrock/address.ts'

/**
 * Where a call goes. `here`: nowhere, it is answered in this process. `region` is what the configuration says of the
 * provider, in lower case; undefined when it says nothing, or nobody can know.
 */
export type CallLocation = 'here' | { host: string; region: string | undefined }

/** Where calls of a configured provider go, by the provider's own name of the model. */
export function locationsOf(config: ProviderConfig): (model: string) => CallLocation {
  if (config.kind === 'local') return () => 'here'
  const region = config.region?.toLowerCase()
  if (config.kind !== 'bedrock') {
    const location = { host: hostOf(config.baseUrl), region }
    return () => location
  }
  const host = hostOf(config.baseUrl ?? bedrockBaseUrl(config.region))
  return (model) => ({ host, region: bedrockRegion(model, config.region) })
}

const hostOf = (url: string): string => new URL(url).hostname

/** Prefixes of the inference profiles by which Amazon spreads calls over the regions of a part of the world. */
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
 * Where Bedrock works on a call: in the region that was asked, unless an inference profile sends it elsewhere. What a profile
 * of a customer's own does, or a global one, its name does not say.
 */
function bedrockRegion(model: string, region: string): string | undefined {
  if (model.includes(':application-inference-profile/')) return undefined
  const id = model.slice(model.lastIndexOf('/') + 1)
  const prefix = id.slice(0, id.indexOf('.'))
  if (prefix === 'global') return undefined
  return GEOGRAPHIES[prefix] ?? region
}
