import type { ConnectionPool } from './connection-pool.ts'
import type { SqliteConnection } from './sqlite-driver.ts'

/** Some 400 pages of the log where chats write it, and 1,000 and more where documents do: with more, commits wait for the disk. */
const WRITES_PER_CHECKPOINT = 32

export type Checkpoints = {
  /** Something was written, and the writer is free for the next. */
  written(): void
}

/**
 * Writes the log back into the file beside the commits, over a connection of its own. Left to SQLite, the commit that
 * fills 1,000 pages does it: of chats one in 65, which then takes 2 to 10 ms more. That was their p99. While it runs it keeps one of the `readers`,
 * so that there is always a thread for the commit that every request waits for.
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
        // The next one does it, or a commit when the log has become long, which says what is wrong with the disk. At the end
        // closing does it.
        .catch(() => undefined)
        .finally(() => {
          running = false
        })
    },
  }
}
