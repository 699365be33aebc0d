import type { PolicyDocument } from '../../../shared/wire/policies.ts'

/** Returns what a policy does not block or change, in words. Empty if it has no such gap. */
export function gapsOf({ mode, pii, dlp, promptShield, residency, attachments }: PolicyDocument): string[] {
  if (mode === 'monitor') return ['findings and forbidden models are only recorded']
  return [
    ...(acts(pii) ? [] : [`personal data is ${pii.enabled ? 'only recorded' : 'not detected'}`]),
    ...(acts(dlp) ? [] : [`secrets are ${dlp.enabled ? 'only recorded' : 'not detected'}`]),
    ...(promptShield.required ? [] : ['attacks on prompts are blocked only for keys with a prompt shield']),
    ...(residency.allowedRegions.length > 0 ? [] : ['models may run in any region']),
    ...(attachments === 'allow' ? ['text in images is not inspected'] : []),
  ]
}

const acts = ({ enabled, action, blockThreshold = null }: Guard): boolean =>
  enabled && (action !== 'log' || blockThreshold !== null)

type Guard = Pick<PolicyDocument['dlp'], 'enabled' | 'action'> & { blockThreshold?: number | null }
