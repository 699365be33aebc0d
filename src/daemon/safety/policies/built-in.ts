import type { PiiEntity } from '../../../shared/pii-entities.ts'
import { toPolicyId } from '../../../shared/policy-id.ts'
import { PolicyDocument, type PolicyDocumentInput } from '../../../shared/wire/policies.ts'
import { type NamedPolicy, policyHash } from './policies.ts'

/** The policy that applies to a request if no other policy is configured for it. */
export const SYSTEM_DEFAULT = 'internal'

/** The identifiers of the HIPAA privacy rule (45 CFR 164.514(b)(2)) that can be recognized in a text. */
const HEALTH_IDENTIFIERS: PiiEntity[] = [
  ...(['PERSON', 'ADDRESS', 'LOCATION', 'DATE', 'DATE_OF_BIRTH', 'AGE', 'PHONE', 'EMAIL', 'URL'] as const),
  ...(['IP_ADDRESS', 'MAC_ADDRESS', 'US_SSN', 'US_ITIN', 'NATIONAL_ID', 'PASSPORT', 'DRIVER_LICENSE'] as const),
  ...(['CREDIT_CARD', 'IBAN'] as const),
]

/** Data that are sufficient to identify a person: identity numbers and contact data (GDPR, article 4 (1)). */
const PERSONAL_IDENTIFIERS: PiiEntity[] = [
  ...(['PERSON', 'ADDRESS', 'DATE_OF_BIRTH', 'PHONE', 'EMAIL', 'IP_ADDRESS', 'MAC_ADDRESS', 'PASSPORT'] as const),
  ...(['DRIVER_LICENSE', 'NATIONAL_ID', 'CREDIT_CARD', 'IBAN', 'CRYPTO_WALLET', 'US_SSN', 'US_ITIN'] as const),
  ...(['UK_NINO', 'UK_NHS', 'ES_DNI', 'ES_NIE', 'FR_NIR', 'DE_STEUER_ID', 'IT_CODICE_FISCALE'] as const),
  ...(['BR_CPF', 'IN_AADHAAR', 'IN_PAN'] as const),
]

/**
 * The built-in policies. Every tenant has these policies and cannot change them. The first four are ordered from least
 * to most strict.
 */
export const BUILT_IN_POLICIES: readonly NamedPolicy[] = [
  builtIn('Public', 'For public content: no guard runs.', { serverTools: { allowed: true } }),
  builtIn('Internal', 'The default: personal data and secrets are recorded, and the text stays unchanged.', {
    pii: { enabled: true, action: 'log' },
    dlp: { enabled: true, action: 'log' },
    urls: { unknownHosts: 'log' },
    serverTools: { allowed: true },
  }),
  builtIn('Internal Strict', 'Personal data and secrets are masked, and the prompt shield scans every prompt.', {
    baseline: true,
    pii: { enabled: true, action: 'mask' },
    dlp: { enabled: true, action: 'mask' },
    promptShield: { required: true, minSensitivity: 'balanced' },
    urls: { unknownHosts: 'neutralise' },
  }),
  builtIn('Confidential', 'Personal data is replaced by pseudonyms, secrets and leaks of instructions are blocked.', {
    baseline: true,
    pii: { enabled: true, entities: PERSONAL_IDENTIFIERS, action: 'tokenize' },
    dlp: { enabled: true, action: 'block' },
    promptShield: { required: true, minSensitivity: 'strict' },
    urls: { unknownHosts: 'neutralise' },
    canary: { enabled: true, action: 'block' },
    promptLeak: { action: 'block' },
    retentionDays: 30,
  }),
  builtIn('HIPAA', 'Identifiers of patients are replaced by pseudonyms before any model sees them.', {
    baseline: true,
    pii: { enabled: true, entities: HEALTH_IDENTIFIERS, action: 'tokenize' },
    dlp: { enabled: true, action: 'mask' },
    promptShield: { required: true, minSensitivity: 'balanced' },
    urls: { unknownHosts: 'neutralise' },
  }),
  builtIn('GDPR', 'Personal data is replaced by pseudonyms and stays with providers in Europe.', {
    baseline: true,
    // Both prefixes are needed: Amazon's European regions start with eu-, Google's start with europe-.
    residency: { allowedRegions: ['eu', 'europe'], onUnknown: 'deny' },
    pii: { enabled: true, entities: PERSONAL_IDENTIFIERS, action: 'tokenize' },
    dlp: { enabled: true, action: 'mask' },
    promptShield: { required: true, minSensitivity: 'balanced' },
    urls: { unknownHosts: 'neutralise' },
    retentionDays: 30,
  }),
  builtIn('PCI DSS', 'Card and account numbers are masked except for the last four digits.', {
    baseline: true,
    pii: { enabled: true, entities: ['CREDIT_CARD', 'IBAN'], action: 'mask' },
    dlp: { enabled: true, action: 'mask' },
    promptShield: { required: true, minSensitivity: 'balanced' },
    urls: { unknownHosts: 'neutralise' },
  }),
]

const BY_ID: ReadonlyMap<string, NamedPolicy> = new Map(BUILT_IN_POLICIES.map((policy) => [policy.id, policy]))

export const findBuiltIn = (id: string): NamedPolicy | undefined => BY_ID.get(id)

function builtIn(name: string, description: string, input: PolicyDocumentInput): NamedPolicy {
  const document = PolicyDocument.parse(input)
  const id = toPolicyId(name)
  const times = { createdAt: null, updatedAt: null }
  return { id, name, description, type: 'built-in', document, hash: policyHash(document), ...times }
}
