/** Lends a fixed set of connections, each to one borrower at a time, first come, first served. */
export type ConnectionPool<Connection> = {
  acquire(): Promise<Connection>
  release(connection: Connection): void
  /** Waits for lent connections, takes all of them out of use and returns them. Later borrowers are rejected. */
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
