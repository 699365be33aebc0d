import type { Db } from '../../src/daemon/platform/db/db.ts'
import { createMasterKey } from '../../src/daemon/platform/secrets/seal.ts'
import { proveConsistency, rootOfChain } from '../../src/daemon/records/evidence/proofs.ts'
import { openSigningKeys } from '../../src/daemon/records/evidence/signing-keys.ts'
import { measureChains } from '../../src/daemon/records/evidence/store.ts'
import { chainOrigin, checkpointText, signedNote } from '../../src/shared/evidence/note.ts'
import { systemClock } from '../../src/shared/time.ts'
import { TEST_MASTER_KEY } from '../webhook-rows.ts'
import type { TestWitness } from '../witness.ts'

/**
 * Does what an operator with the store and its current key can do: signs a checkpoint of each log that the witness has
 * cosigned, in its current state, and submits it with every old size that could be accepted. Returns the statuses by
 * chain.
 */
export async function submitAll(db: Db, witness: TestWitness): Promise<Map<string, number[]>> {
  const [name = ''] = [...witness.seen.keys()].map((origin) => origin.replace(/\/logs\/.*/, ''))
  const keys = await openSigningKeys(db, { masterKey: createMasterKey(TEST_MASTER_KEY), name, clock: systemClock })
  const signer = await keys.current()
  const statuses = new Map<string, number[]>()
  for (const { tenant_id, chain, size } of await measureChains(db)) {
    const origin = chainOrigin(name, tenant_id, chain)
    const cosigned = witness.seen.get(origin)?.size
    if (cosigned === undefined) continue
    const root = (await rootOfChain(db, tenant_id, chain, size)).toString('base64')
    const text = checkpointText({ origin, size, root })
    const note = signedNote(text, signer.name, signer.publicKey, signer.sign(text))
    const results: number[] = []
    for (const oldSize of new Set([0, size, cosigned])) {
      const path = oldSize <= size ? await proveConsistency(db, tenant_id, chain, oldSize, size) : []
      const lines = [`old ${oldSize}`, ...path.map((node) => node.toString('base64')), '', note]
      const { status } = await fetch(`${witness.url}/add-checkpoint`, { method: 'POST', body: lines.join('\n') })
      results.push(status)
    }
    statuses.set(chain, results)
  }
  return statuses
}
