import { expect, test } from 'vitest'
import { openDatabase } from '../../../../src/daemon/platform/db/database.ts'
import { sqliteEngine } from '../../../engines.ts'
import { startTypescript } from '../../../typescript-process.ts'
import { newTenant, openChainRig } from './chain-rig.ts'

const KILLS = 10

test('kill -9 during commits, 10 times: one complete chain, with every acknowledged request and its bill', async () => {
  const { options, dataDir, remove } = await sqliteEngine.place()
  const db = await openDatabase(options)
  const tenantId = await newTenant(db)
  await db.destroy()

  const acknowledged: string[] = []
  for (let kill = 0; kill < KILLS; kill++) {
    const program = startTypescript(new URL('sealing-process.ts', import.meta.url), [dataDir, tenantId, `run${kill}`])
    for (let line = 0; line < 60 + 37 * kill; line++) acknowledged.push(await program.line())
    await program.kill()
  }

  const after = await openDatabase(options)
  const { verify } = await openChainRig(after)
  const entries = await after.selectFrom('evidence_entries').select('id').execute()
  const bills = await after.selectFrom('incidents').select('id').execute()
  const ids = new Set(entries.map(({ id }) => id))
  expect(acknowledged.filter((id) => !ids.has(id))).toEqual([])
  expect(bills.map(({ id }) => id).sort()).toEqual([...ids].sort())
  expect(await verify(tenantId)).toMatchObject([{ ok: true, size: ids.size }])
  await after.destroy()
  await remove()
})
