import { expect, test } from 'vitest'
import {
  findPendingDocuments,
  findPendingIndex,
} from '../../../../../src/daemon/knowledge/search/vectors/vector-store.ts'
import { sqliteEngine } from '../../../../engines.ts'
import { queryPlans } from '../../../../query-plan.ts'

// These queries run every two seconds, so passages that have vectors must not cost anything.
test('missing vectors are found without reading existing ones', async () => {
  const { db, close } = await sqliteEngine.open()
  try {
    const index = { tenantId: 'a', indexId: 'zoo' }
    const plans = await queryPlans(db, async (recorded) => {
      await findPendingIndex(recorded, 1, index)
      await findPendingDocuments(recorded, index, 1, { limit: 64 })
    })
    const ofDocuments = plans.filter((plan) => plan.includes('documents'))
    expect(ofDocuments).toHaveLength(2)
    expect(ofDocuments[0]).toMatch(
      /SEARCH documents USING (COVERING )?INDEX documents_by_embedding \(embedded_by=\? AND \(tenant_id,index_id\)>\(\?,\?\)\)/,
    )
    expect(ofDocuments[1]).toMatch(
      /SEARCH documents USING INDEX documents_by_embedding \(embedded_by=\? AND tenant_id=\? AND index_id=\?\)/,
    )
    for (const plan of ofDocuments) expect(plan).not.toContain('TEMP B-TREE')
  } finally {
    await close()
  }
})
