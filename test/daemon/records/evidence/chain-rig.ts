import { randomBytes } from 'node:crypto'
import type { Db } from '../../../../src/daemon/platform/db/db.ts'
import { createMasterKey } from '../../../../src/daemon/platform/secrets/seal.ts'
import { createLosses, type Losses } from '../../../../src/daemon/records/evidence/losses.ts'
import { createSealer, type Sealer } from '../../../../src/daemon/records/evidence/sealing.ts'
import { openSigningKeys, type SigningKeys } from '../../../../src/daemon/records/evidence/signing-keys.ts'
import { type CheckedChain, verifyTenant } from '../../../../src/daemon/records/evidence/verification.ts'
import { createLedger, type Ledger } from '../../../../src/daemon/records/ledger/ledger.ts'
import type { EntryDraft } from '../../../../src/daemon/records/ledger/records.ts'
import { toCanonicalJson } from '../../../../src/shared/canonical-json.ts'
import { type Clock, systemClock } from '../../../../src/shared/time.ts'
import { addTenant } from '../../../accounts.ts'
import { TEST_MASTER_KEY } from '../../../webhook-rows.ts'

/** A ledger that writes chains, as in a daemon. */
export type ChainRig = {
  db: Db
  keys: SigningKeys
  sealer: Sealer
  ledger: Ledger
  losses: Losses
  /** The logged failures. */
  failures: unknown[]
  verify(tenantId: string): Promise<CheckedChain[]>
}

export async function openChainRig(
  db: Db,
  { clock = systemClock, daemonId = randomBytes(6).toString('hex') }: { clock?: Clock; daemonId?: string } = {},
): Promise<ChainRig> {
  const masterKey = createMasterKey(TEST_MASTER_KEY)
  const keys = await openSigningKeys(db, { masterKey, name: 'test', clock })
  const failures: unknown[] = []
  const losses = createLosses({ db, clock, log: { error: (details: object) => void failures.push(details) } })
  const sealer = createSealer({ db, clock, keys, daemonId, successors: losses.successors })
  const ledger = createLedger({
    db,
    clock,
    log: { error: (details: unknown) => failures.push(details), info: () => {} },
    sealer,
  })
  const verify = async (tenantId: string) => verifyTenant(db, tenantId, await keys.published())
  return { db, keys, sealer, ledger, losses, failures, verify }
}

export const newTenant = async (db: Db): Promise<string> => (await addTenant(db)).id

/** The record of a request, as far as chains need it. */
export function draftOf(
  tenantId: string,
  id: string,
  facts: Record<string, unknown> = {},
  nowMs = Date.now(),
): EntryDraft {
  const payload = toCanonicalJson({ version: 1, kind: 'request', compliance_category: 'data_protection', ...facts, id })
  return { id, tenantId, createdAtMs: nowMs, payload }
}

/** The errors in the chains of a tenant; empty if all are valid. */
export const problemsOf = (chains: readonly CheckedChain[]) =>
  chains.flatMap(({ chain, firstBad }) => (firstBad ? [{ chain, ...firstBad }] : []))
