import type { PolicyDocument } from '../../../shared/wire/policies.ts'
import type { Log } from '../../platform/log.ts'
import { SYSTEM_DEFAULT } from './built-in.ts'
import type { PolicyList } from './policies.ts'

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

/** Logs once what the default policy of a tenant without an active policy does not block. */
export function announceDefault(tenantId: string, { find }: Pick<PolicyList, 'find'>, log: Pick<Log, 'info'>): void {
  const policy = find(SYSTEM_DEFAULT)
  const gaps = policy ? gapsOf(policy.document) : []
  const facts = { tenant_id: tenantId, policy: SYSTEM_DEFAULT, gaps }
  log.info(facts, 'this tenant has no active policy; the default policy leaves gaps (aigw policies activate)')
}
