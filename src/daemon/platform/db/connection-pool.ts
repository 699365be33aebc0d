/**
 * Lends the connections of a fixed set. Each connection has one borrower at a time; borrowers are served in order of
 * arrival.
 */
export type ConnectionPool<Connection> = {
  acquire(): Promise<Connection>
  release(connection: Connection): void
  /**
   * Waits until all connections are returned, removes them from the pool and returns them. Later borrowers are
   * rejected.
   */
  drain(): Promise<Connection[]>
}

export function createConnectionPool<Connection>(connections: readonly Connection[]): ConnectionPool<Connection> {
  const idle = [...connections]
  const waiting: ((connection: Connection) => void)[] = []
  let draining = false

  function borrow(): Promise<Connection> {
    const connection = idle.pop()
    return connection === undefined ? new Promise((resolve) => waiting.push(resolve)) : Promise.resolve(connection)
  }

  return {
    acquire: () => (draining ? Promise.reject(new Error('the database is closed')) : borrow()),
    release(connection) {
      const next = waiting.shift()
      if (next === undefined) idle.push(connection)
      else next(connection)
    },
    drain() {
      draining = true
      return Promise.all(connections.map(borrow))
    },
  }
}
