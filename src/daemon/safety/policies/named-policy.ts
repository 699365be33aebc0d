import { hash } from 'node:crypto'
import { toCanonicalJson } from '../../../shared/canonical-json.ts'
import type { PolicyDocument } from '../../../shared/wire/policies.ts'

/** A policy as requests are resolved to it. */
export type NamedPolicy = {
  id: string
  name: string
  description: string
  type: 'built-in' | 'custom'
  /** Every field is in it. */
  document: PolicyDocument
  /** `policyHash` of the document. */
  hash: string
  /** ISO 8601; null for what is built in. */
  createdAt: string | null
  updatedAt: string | null
}

/** What `smltp_policy_hash` says: SHA-256 of the canonical JSON of the document, hex. */
export const policyHash = (document: PolicyDocument): string => hash('sha256', toCanonicalJson(document), 'hex')
