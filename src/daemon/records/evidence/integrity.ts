import { LRUCache } from 'lru-cache'
import { exportRoot } from '../../../shared/evidence/export-root.ts'
import { type Clock, isoTime } from '../../../shared/time.ts'
import type { ChainIntegrity } from '../../../shared/wire/transparency.ts'
import type { Db } from '../../platform/db/db.ts'
import type { SigningKeys } from './signing-keys.ts'
import { readChain } from './store.ts'
import { type CheckedChain, verifyTenant } from './verification.ts'

/** The result of verifying one chain. `entryId` is the id of the first invalid entry, if there is one. */
export type ChainFindings = CheckedChain & { entryId: string | null }

/** Verifies tenants' logs and caches the last results. */
export type Integrity = {
  /** Verifies every chain of the tenant, or waits for a verification in progress. */
  check(tenantId: string): Promise<ChainIntegrity>
  /** Returns the last result of this daemon for the tenant, if any. */
  last(tenantId: string): ChainIntegrity | undefined
}

const TENANTS_CACHED = 1_000

export type IntegrityDeps = { db: Db; clock: Clock; keys: Pick<SigningKeys, 'published'> }

/**
 * A verification reads the whole log. This daemon therefore runs only one verification at a time, and requests for the
 * same tenant share its result.
 */
export function createIntegrity({ db, clock, keys }: IntegrityDeps): Integrity {
  const found = new LRUCache<string, ChainIntegrity>({ max: TENANTS_CACHED })
  const walks = new Map<string, Promise<ChainIntegrity>>()
  let turn: Promise<unknown> = Promise.resolve()

  async function walk(tenantId: string): Promise<ChainIntegrity> {
    const startedMs = clock.monotonic()
    const findings = await findingsOf(tenantId)
    const result = toIntegrity(findings, isoTime(clock.now()), clock.monotonic() - startedMs)
    found.set(tenantId, result)
    return result
  }

  async function findingsOf(tenantId: string): Promise<ChainFindings[]> {
    const findings: ChainFindings[] = []
    for (const checked of await verifyTenant(db, tenantId, await keys.published(), keys.published)) {
      const { chain, firstBad } = checked
      const [bad] = firstBad ? await readChain(db, tenantId, chain, { from: firstBad.seq, limit: 1 }) : []
      findings.push({ ...checked, entryId: bad?.seq === firstBad?.seq ? (bad?.id ?? null) : null })
    }
    return findings
  }

  return {
    check(tenantId) {
      const running = walks.get(tenantId)
      if (running) return running
      const mine = turn.then(() => walk(tenantId)).finally(() => walks.delete(tenantId))
      walks.set(tenantId, mine)
      turn = mine.catch(() => {})
      return mine
    },
    last: (tenantId) => found.get(tenantId),
  }
}

/** In an invalid chain, all entries from the first invalid entry on count as invalid. */
function toIntegrity(findings: readonly ChainFindings[], timestamp: string, verificationTime: number): ChainIntegrity {
  let totalEntries = 0
  let validEntries = 0
  const details: ChainIntegrity['details'] = []
  for (const { chain, size, firstBad, entryId } of findings) {
    totalEntries += size
    validEntries += Math.min(size, firstBad?.seq ?? size)
    if (firstBad) details.push({ entryId, signatureValid: false, merkleValid: false, chain, ...firstBad })
  }
  const holds = details.length === 0
  const chains = findings.filter(({ size }) => size > 0)
  return {
    timestamp,
    verificationTime,
    chainIntegrity: holds ? 'maintained' : 'violated',
    statistics: { totalEntries, validEntries, invalidEntries: totalEntries - validEntries },
    details,
    merkleRoot: holds && chains.length > 0 ? exportRoot(chains).toString('hex') : null,
    treeSize: validEntries,
  }
}
