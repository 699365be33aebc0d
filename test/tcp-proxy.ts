import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** A TCP proxy on a free port of 127.0.0.1. Its connections can go silent without closing, as if a server stopped. */
export type TcpProxy = {
  port: number
  /** Stops forwarding in both directions on connections that are open now. New connections work. */
  silence(): void
  /** Stops forwarding on all connections, also on new ones, until `thaw`. Frozen connections stay silent for ever. */
  freeze(): void
  thaw(): void
  close(): Promise<void>
}

export async function startTcpProxy(target: { host: string; port: number }): Promise<TcpProxy> {
  const sockets = new Set<Socket>()
  let isFrozen = false
  const server = createServer((near) => {
    if (isFrozen) {
      sockets.add(near)
      near.on('error', () => near.destroy())
      near.on('close', () => sockets.delete(near))
      return
    }
    const far = connect(target.port, target.host)
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from)
      from.pipe(to)
      from.on('error', () => to.destroy())
      from.on('close', () => {
        sockets.delete(from)
        to.destroy()
      })
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const silence = () => {
    for (const socket of sockets) socket.unpipe().pause()
  }
  return {
    port: (server.address() as AddressInfo).port,
    silence,
    freeze() {
      isFrozen = true
      silence()
    },
    thaw() {
      isFrozen = false
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}
