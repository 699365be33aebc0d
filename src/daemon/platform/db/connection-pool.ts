/**
 * Lends connections from a fixed set. Each connection has one borrower at a time; borrowers are served in order of
 * arrival.
 */
export type ConnectionPool<Connection> = {
  acquire(): Promise<Connection>
  release(connection: Connection): void
  /** Rejects all waiting borrowers, unless the pool is draining. */
  rejectWaiting(error: unknown): void
  /**
   * Waits until all connections are returned, removes them from the pool and returns them. Later borrowers are
   * rejected.
   */
  drain(): Promise<Connection[]>
}

export function createConnectionPool<Connection>(connections: readonly Connection[]): ConnectionPool<Connection> {
  const idle = [...connections]
  const waiting: { resolve(connection: Connection): void; reject(error: unknown): void }[] = []
  let draining = false

  function borrow(): Promise<Connection> {
    const connection = idle.pop()
    if (connection !== undefined) return Promise.resolve(connection)
    return new Promise((resolve, reject) => waiting.push({ resolve, reject }))
  }

  return {
    acquire: () => (draining ? Promise.reject(new Error('the database is closed')) : borrow()),
    release(connection) {
      const next = waiting.shift()
      if (next === undefined) idle.push(connection)
      else next.resolve(connection)
    },
    rejectWaiting(error) {
      if (draining) return
      for (const { reject } of waiting.splice(0)) reject(error)
    },
    drain() {
      draining = true
      return Promise.all(connections.map(borrow))
    },
  }
}
