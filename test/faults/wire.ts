import { Socket } from 'node:net'

/** The connections that this process opens, except those to the gateway itself. */
export type Wire = {
  /** Connections that are not closed yet. */
  open(): Iterable<Socket>
  close(): void
}

/**
 * Watches every TCP and TLS client socket from its creation, because connection attempts are already I/O in progress.
 */
export function watchWire(): Wire {
  const sockets = new Set<Socket>()
  const { connect } = Socket.prototype
  Socket.prototype.connect = function (this: Socket, ...args: unknown[]) {
    sockets.add(this)
    return Reflect.apply(connect, this, args)
  }
  return {
    open() {
      for (const socket of sockets) if (socket.destroyed) sockets.delete(socket)
      return sockets
    },
    close() {
      Socket.prototype.connect = connect
    },
  }
}
