import { allowsModel } from '../../../shared/allowlists.ts'
import type { PolicyDocument } from '../../../shared/wire/policies.ts'
import type { CallLocation } from '../../models/call-location.ts'

/** A model that may be asked, and where that call would go. */
export type Destination = { modelId: string; location: CallLocation }

/** Whether what a request holds may be shown to a model that the request did not ask for. */
export type MayAsk = (destination: Destination) => boolean

/** What a policy has against a model. */
export type Violation = {
  modelId: string
  /** The field of the document, such as `residency.allowedRegions`. */
  rule: string
  /** Completes "The policy … does not allow the model …: ". */
  reason: string
}

/** What this document has against each of these models: the first thing, for each. In monitor mode it is the same. */
export const violationsOf = (document: PolicyDocument, destinations: readonly Destination[]): Violation[] =>
  destinations.flatMap((destination) => violationOf(document, destination) ?? [])

function violationOf(
  { allowedModels, deniedModels, allowedProviders, residency, egress }: PolicyDocument,
  { modelId, location }: Destination,
): Violation | undefined {
  const breaks = (rule: string, reason: string): Violation => ({ modelId, rule, reason })
  if (deniedModels.length > 0) {
    if (!PLAIN_NAME.test(modelId)) return breaks('deniedModels', 'its name cannot be compared with its deniedModels')
    const denied = deniedModels.map(plainSpelling)
    if (spellingsOf(modelId).some((spelling) => allowsModel(denied, spelling))) {
      return breaks('deniedModels', 'it is one of its deniedModels')
    }
  }
  if (!allowsModel(allowedModels, modelId)) {
    return breaks('allowedModels', `its allowedModels are ${allowedModels.join(', ')}`)
  }
  const provider = modelId.slice(0, modelId.indexOf('/'))
  if (allowedProviders.length > 0 && !allowedProviders.includes(provider)) {
    return breaks('allowedProviders', `its allowedProviders are ${allowedProviders.join(', ')}`)
  }
  // What is answered in this process leaves it for no region and no host.
  if (location === 'here') return undefined
  const { allowedRegions, onUnknown } = residency
  if (allowedRegions.length > 0) {
    const regions = `its residency.allowedRegions are ${allowedRegions.join(', ')}`
    if (location.region === undefined) {
      if (onUnknown === 'deny') return breaks('residency.onUnknown', `no region is known of it, and ${regions}`)
    } else if (!allowedRegions.some((region) => isWithin(region, location.region as string))) {
      return breaks('residency.allowedRegions', `it is in "${location.region}", and ${regions}`)
    }
  }
  if (egress.denyHosts.some((pattern) => isHost(pattern, location.host))) {
    return breaks('egress.denyHosts', `"${location.host}" is one of its egress.denyHosts`)
  }
  if (egress.allowHosts.length > 0 && !egress.allowHosts.some((pattern) => isHost(pattern, location.host))) {
    return breaks(
      'egress.allowHosts',
      `"${location.host}" is none of its egress.allowHosts, ${egress.allowHosts.join(', ')}`,
    )
  }
  return undefined
}

/** Visible ASCII: no name of a model has anything else, and what nobody sees could hide one. */
const PLAIN_NAME = /^[\x21-\x7e]+$/
/** What Bedrock puts before a model that it routes within a part of the world; the model is the same. */
const PROFILE = /\/(?:us-gov|us|eu|apac|jp|au|ca|sa|me|af|global)\./

/**
 * A name as a ban compares it, for a ban must not be got round by another spelling that the provider takes as well: in
 * capitals, with `.` in its path, as the resource that it is (`models/` of Google, the ARN of Bedrock), with the tag that is
 * meant without one.
 */
function plainSpelling(modelId: string): string {
  const [provider = '', ...path] = modelId.toLowerCase().split('/')
  const steps = path.filter((step) => step !== '' && step !== '.')
  const isResource = steps.length > 1 && (steps[0] === 'models' || steps[0]?.startsWith('arn:') === true)
  return [provider, ...(isResource ? steps.slice(1) : steps)].join('/').replace(/:latest$/, '')
}

/** Both of its names when a model is asked by way of a profile, for either may be banned. */
function spellingsOf(modelId: string): string[] {
  const spelling = plainSpelling(modelId)
  return [spelling, spelling.replace(PROFILE, '/')]
}

/** `eu` holds `eu-west-1`. */
const isWithin = (region: string, location: string): boolean => location === region || location.startsWith(`${region}-`)

/** `*.example.com` is whatever is below it, and not itself. */
const isHost = (pattern: string, host: string): boolean =>
  pattern.startsWith('*.') ? host.endsWith(pattern.slice(1)) : host === pattern
