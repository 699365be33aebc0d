// A second process for sealing-kill.test.ts. It commits requests with their evidence until it is killed, and prints
// each id after its commit has resolved. Arguments: data directory, tenant, name of this run.
import { openDatabase } from '../../../../src/daemon/platform/db/database.ts'
import { incidentRow } from '../ledger/rows.ts'
import { draftOf, openChainRig } from './chain-rig.ts'

const [dataDir = '', tenantId = '', run = ''] = process.argv.slice(2)
const db = await openDatabase({ kind: 'sqlite', dataDir })
const { ledger } = await openChainRig(db, { daemonId: 'abcdefabcdef' })

let count = 0
async function client(): Promise<never> {
  for (;;) {
    const id = `${run}-${count++}`
    await ledger.commit({ incidents: [incidentRow(id)], evidence: [draftOf(tenantId, id)] })
    process.stdout.write(`${id}\n`)
  }
}
await Promise.all(Array.from({ length: 20 }, client))
