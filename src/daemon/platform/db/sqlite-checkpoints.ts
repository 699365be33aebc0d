// Moves SQLite's write-ahead log into the database in the background.
import type { ConnectionPool } from './connection-pool.ts'
import type { SqliteConnection } from './sqlite-driver.ts'

/**
 * The number of writes between checkpoints. This many chat writes fill about 400 pages of the log; this many document
 * writes fill 1,000 or more. If the number were higher, commits would wait for the disk.
 */
const WRITES_PER_CHECKPOINT = 32

export type Checkpoints = {
  /** Call this after a write, once the writer is idle. */
  written(): void
}

/**
 * Checkpoints the write-ahead log in parallel with commits, over a separate connection. By default, SQLite checkpoints
 * inside the commit that fills 1,000 pages. With this default, one chat in 65 took 2 to 10 ms longer. These chats
 * determined the p99. While a checkpoint runs, it occupies one of the `readers`. One thread therefore stays free for
 * commits. This matters because every request waits for a commit.
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
        // The next checkpoint retries. The error is ignored: a commit checkpoints a long log itself, and its error then
        // reports the disk fault. Closing the store also checkpoints.
        .catch(() => undefined)
        .finally(() => {
          running = false
        })
    },
  }
}
