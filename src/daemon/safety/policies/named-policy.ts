import { hash } from 'node:crypto'
import { toCanonicalJson } from '../../../shared/canonical-json.ts'
import type { PolicyDocument } from '../../../shared/wire/policies.ts'

/** A policy as requests resolve it. */
export type NamedPolicy = {
  id: string
  name: string
  description: string
  type: 'built-in' | 'custom'
  /** Complete: every field is set. */
  document: PolicyDocument
  /** `policyHash` of the document. */
  hash: string
  /** ISO 8601; null for a built-in policy. */
  createdAt: string | null
  updatedAt: string | null
}

/** The value of `smltp_policy_hash`: SHA-256 of the canonical JSON of the document, hex. */
export const policyHash = (document: PolicyDocument): string => hash('sha256', toCanonicalJson(document), 'hex')
