import { allowsModel } from '../../../shared/allowlists.ts'
import type { PolicyDocument } from '../../../shared/wire/policies.ts'
import type { Destination, PolicyUses } from './policies.ts'

/** A policy rule that a model violates. */
export type Violation = {
  modelId: string
  /** The field of the document, such as `residency.allowedRegions`. */
  rule: string
  /** Completes the sentence "The policy … does not allow the model …: ". */
  reason: string
}

/** Returns what the request uses although the policy forbids it, as violations of its first model. */
export function violationsBy(
  { serverTools, addresses, inferenceGeo, unreadFiles = [], attachments = [] }: PolicyUses,
  document: PolicyDocument,
  [first]: readonly Destination[],
): Violation[] {
  const modelId = first?.modelId ?? ''
  const violations: Violation[] = []
  if (serverTools.length > 0 && !document.serverTools.allowed) {
    const reason = `the request uses the server tool ${serverTools.join(', ')}, and serverTools.allowed of the policy is false`
    violations.push({ modelId, rule: 'serverTools.allowed', reason })
  }
  if (addresses && !document.addresses.allowed) {
    const reason =
      'the request contains the address of an image or document, and addresses.allowed of the policy is false'
    violations.push({ modelId, rule: 'addresses.allowed', reason })
  }
  if (unreadFiles.length > 0 && !document.unreadFiles.allowed) {
    const reason = `the request contains files that guards cannot read (${unreadFiles.join(', ')}), and unreadFiles.allowed of the policy is false`
    violations.push({ modelId, rule: 'unreadFiles.allowed', reason })
  }
  if (attachments.length > 0 && document.attachments !== 'allow') {
    const reason = `the request contains attachments (${attachments.join(', ')}), and attachments of the policy is "${document.attachments}"`
    violations.push({ modelId, rule: 'attachments', reason })
  }
  const { allowedRegions } = document.residency
  if (inferenceGeo !== undefined && allowedRegions.length > 0) {
    if (!allowedRegions.some((region) => isWithin(region, inferenceGeo))) {
      const reason = `the request sets inference_geo to another region, and the residency.allowedRegions of the policy are ${allowedRegions.join(', ')}`
      violations.push({ modelId, rule: 'residency.allowedRegions', reason })
    }
  }
  return violations
}

/** For each model that violates this document, returns its first violation. The document's mode is ignored. */
export const violationsOf = (document: PolicyDocument, destinations: readonly Destination[]): Violation[] =>
  destinations.flatMap((destination) => violationOf(document, destination) ?? [])

function violationOf(
  { allowedModels, deniedModels, allowedProviders, residency, egress }: PolicyDocument,
  { modelId, location }: Destination,
): Violation | undefined {
  const breaks = (rule: string, reason: string): Violation => ({ modelId, rule, reason })
  if (deniedModels.length > 0) {
    if (!PLAIN_NAME.test(modelId))
      return breaks(
        'deniedModels',
        'the model name has characters that cannot be compared with the deniedModels of the policy',
      )
    const denied = deniedModels.map(plainSpelling)
    if (spellingsOf(modelId).some((spelling) => allowsModel(denied, spelling))) {
      return breaks('deniedModels', 'the deniedModels of the policy include it')
    }
  }
  if (!allowsModel(allowedModels, modelId)) {
    return breaks('allowedModels', `the allowedModels of the policy are ${allowedModels.join(', ')}`)
  }
  const provider = modelId.slice(0, modelId.indexOf('/'))
  if (allowedProviders.length > 0 && !allowedProviders.includes(provider)) {
    return breaks('allowedProviders', `the allowedProviders of the policy are ${allowedProviders.join(', ')}`)
  }
  // A model that runs in this process is exempt from the rules on regions and hosts.
  if (location === 'here') return undefined
  const { allowedRegions, onUnknown } = residency
  if (allowedRegions.length > 0) {
    const regions = `the residency.allowedRegions of the policy are ${allowedRegions.join(', ')}`
    if (location.region === undefined) {
      if (onUnknown === 'deny') return breaks('residency.onUnknown', `its region is unknown, and ${regions}`)
    } else if (!allowedRegions.some((region) => isWithin(region, location.region as string))) {
      return breaks('residency.allowedRegions', `its region is "${location.region}", and ${regions}`)
    }
  }
  if (egress.denyHosts.some((pattern) => isHost(pattern, location.host))) {
    return breaks('egress.denyHosts', `the egress.denyHosts of the policy include "${location.host}"`)
  }
  if (egress.allowHosts.length > 0 && !egress.allowHosts.some((pattern) => isHost(pattern, location.host))) {
    return breaks(
      'egress.allowHosts',
      `"${location.host}" is not in the egress.allowHosts of the policy: ${egress.allowHosts.join(', ')}`,
    )
  }
  return undefined
}

/**
 * Matches visible ASCII only. Real model names contain only these characters. Other characters are rejected, because
 * invisible characters could bypass a ban.
 */
const PLAIN_NAME = /^[\x21-\x7e]+$/
/**
 * Bedrock's prefix for a cross-region inference profile. A name with this prefix and the name without it refer to the
 * same model.
 */
const PROFILE = /\/(?:us-gov|us|eu|apac|jp|au|ca|sa|me|af|global)\./

/**
 * Returns the canonical spelling of a model name, for bans. A ban must also match all other spellings that the provider
 * accepts. Examples: capitals, `.` in the path, a resource name (Google's `models/`, Bedrock's ARN), an explicit
 * default tag.
 */
function plainSpelling(modelId: string): string {
  const [provider = '', ...path] = modelId.toLowerCase().split('/')
  const steps = path.filter((step) => step !== '' && step !== '.')
  const isResource = steps.length > 1 && (steps[0] === 'models' || steps[0]?.startsWith('arn:') === true)
  return [provider, ...(isResource ? steps.slice(1) : steps)].join('/').replace(/:latest$/, '')
}

/** Returns the canonical spelling with and without Bedrock's prefix, because a ban may name either spelling. */
function spellingsOf(modelId: string): string[] {
  const spelling = plainSpelling(modelId)
  return [spelling, spelling.replace(PROFILE, '/')]
}

/** `eu` includes `eu-west-1`. */
const isWithin = (region: string, location: string): boolean => location === region || location.startsWith(`${region}-`)

/** `*.example.com` matches subdomains, but not `example.com`. */
const isHost = (pattern: string, host: string): boolean =>
  pattern.startsWith('*.') ? host.endsWith(pattern.slice(1)) : host === pattern
