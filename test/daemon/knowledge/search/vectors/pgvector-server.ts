import { createServer } from 'node:net'
import { PGlite } from '@electric-sql/pglite'
import { vector } from '@electric-sql/pglite-pgvector'
import { PGLiteSocketServer } from '@electric-sql/pglite-socket'
import { openDatabase } from '../../../../../src/daemon/platform/db/database.ts'
import type { Db } from '../../../../../src/daemon/platform/db/db.ts'
import { migrateDatabase } from '../../../../../src/daemon/platform/db/migrate.ts'

/** A migrated store on a PostgreSQL with pgvector, in this process, behind a normal socket. */
export async function openPgvectorStore(): Promise<{ db: Db; close(): Promise<void> }> {
  const engine = await PGlite.create({ extensions: { vector } })
  const port = await freePort()
  const server = new PGLiteSocketServer({ db: engine, host: '127.0.0.1', port, maxConnections: 10 })
  await server.start()
  const db = await openDatabase({ kind: 'postgres', url: `postgres://postgres@127.0.0.1:${port}/postgres` })
  await migrateDatabase(db)
  return {
    db,
    async close() {
      await db.destroy()
      await server.stop()
      await engine.close()
    },
  }
}

/** A port that was free a moment ago, because the server needs a fixed port. */
function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', reject)
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address()
      probe.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0))
    })
  })
}
