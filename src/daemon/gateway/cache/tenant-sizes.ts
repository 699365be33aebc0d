import { LRUCache } from 'lru-cache'
import type { Clock } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import { bytesOf, deleteEntries, findOldest } from './store.ts'

/** How long a size is known. Other daemons on the same store change it too. */
export const SIZE_KNOWN_MS = 60_000
const TENANTS_KNOWN = 1_000
/** How many answers are deleted in one statement. */
const EVICTED_ROWS = 200
/** Evictions free more than is needed, so that the next answers need no eviction. */
const FREED_SHARE = 0.1

/** Limits the size of the stored answers of each tenant. */
export type TenantSizes = {
  /** Deletes the tenant's oldest answers until `bytes` more fit. Call this before an answer is stored. */
  makeRoom(tenantId: string, bytes: number): Promise<void>
  /** Call this after answers of the tenant were deleted. */
  forget(tenantId: string): void
}

/** @param maxBytes the limit of each tenant */
export function createTenantSizes({ db, clock }: { db: Db; clock: Clock }, maxBytes: number): TenantSizes {
  const known = new LRUCache<string, { bytes: number; readAtMs: number }>({ max: TENANTS_KNOWN })

  async function sizeOf(tenantId: string): Promise<{ bytes: number; readAtMs: number }> {
    const current = known.get(tenantId)
    if (current && clock.monotonic() - current.readAtMs < SIZE_KNOWN_MS) return current
    const read = { bytes: await bytesOf(db, tenantId), readAtMs: clock.monotonic() }
    known.set(tenantId, read)
    return read
  }

  return {
    async makeRoom(tenantId, bytes) {
      let size = await sizeOf(tenantId)
      if (size.bytes + bytes > maxBytes) {
        // The known size may be too high, because answers expire.
        known.delete(tenantId)
        size = await sizeOf(tenantId)
      }
      if (size.bytes + bytes > maxBytes) await evict(size, tenantId, bytes)
      size.bytes += bytes
    },
    forget: (tenantId) => void known.delete(tenantId),
  }

  async function evict(size: { bytes: number }, tenantId: string, bytes: number): Promise<void> {
    const target = Math.max(0, maxBytes * (1 - FREED_SHARE) - bytes)
    while (size.bytes > target) {
      const oldest = await findOldest(db, tenantId, EVICTED_ROWS)
      if (oldest.length === 0) return
      const evicted: string[] = []
      for (const entry of oldest) {
        if (size.bytes <= target) break
        evicted.push(entry.id)
        size.bytes -= Number(entry.bytes)
      }
      await deleteEntries(db, tenantId, evicted)
    }
  }
}
