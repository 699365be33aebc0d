// Moves SQLite's write-ahead log into the database in the background.
import type { ConnectionPool } from './connection-pool.ts'
import type { SqliteConnection } from './sqlite-driver.ts'

/**
 * About 400 pages of the log for chats, and 1,000 and more for documents. With a larger number, commits wait for the
 * disk.
 */
const WRITES_PER_CHECKPOINT = 32

export type Checkpoints = {
  /** Call after a write, when the writer is free again. */
  written(): void
}

/**
 * Checkpoints the write-ahead log in parallel with commits, over a separate connection. By default SQLite checkpoints
 * in the commit that fills 1,000 pages: one chat in 65 then takes 2 to 10 ms more, which was their p99. A running
 * checkpoint borrows one of the `readers`, so that a thread is always free for the commit that every request waits for.
 */
export function createCheckpoints(
  connection: SqliteConnection,
  readers: ConnectionPool<SqliteConnection>,
): Checkpoints {
  let writes = 0
  let running = false

  async function writeBack(): Promise<void> {
    const reader = await readers.acquire()
    try {
      await connection.exec('pragma wal_checkpoint(passive)')
    } finally {
      readers.release(reader)
    }
  }

  return {
    written() {
      writes++
      if (running || writes < WRITES_PER_CHECKPOINT) return
      writes = 0
      running = true
      writeBack()
        // The next checkpoint retries, or a commit does once the log is long; its error then names the disk's fault.
        // Closing checkpoints at the end.
        .catch(() => undefined)
        .finally(() => {
          running = false
        })
    },
  }
}
