import { Socket } from 'node:net'

/** The connections that this process opens, apart from those to the gateway itself. */
export type Wire = {
  /** Those that are not yet closed. */
  open(): Iterable<Socket>
  close(): void
}

/** Watches every TCP and TLS client socket from its first moment, because a connection attempt is already work in progress. */
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
