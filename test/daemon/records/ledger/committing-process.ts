// A second process for ledger.test.ts. It commits records and one point each until it is killed, and prints each
// request id after its commit has resolved. Arguments: data directory, name of this run.
import { openDatabase } from '../../../../src/daemon/platform/db/database.ts'
import { createLedger } from '../../../../src/daemon/records/ledger/ledger.ts'
import { systemClock } from '../../../../src/shared/time.ts'
import { incidentRow } from './rows.ts'

const [dataDir = '', run = ''] = process.argv.slice(2)
const db = await openDatabase({ kind: 'sqlite', dataDir })
const ledger = createLedger({
  db,
  clock: systemClock,
  log: { error: (fault: unknown) => process.stderr.write(String(fault)), info: () => {} },
})

const account = { tenant_id: 'tenant', holder: 'user', holder_id: 'user', period: '2026-01' } as const
let count = 0
async function client(): Promise<never> {
  for (;;) {
    const id = `${run}-${count++}`
    await ledger.commit({ incidents: [incidentRow(id)], spend: [{ ...account, nanos: 0, points: 1 }] })
    process.stdout.write(`${id}\n`)
  }
}
await Promise.all(Array.from({ length: 20 }, client))
