import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { LRUCache } from 'lru-cache'
import { Client } from 'undici'
import type { Clock } from '../../../shared/time.ts'
import { lookupWith } from '../../platform/network/names.ts'
import type { Target } from '../target-address.ts'
import { refuseOtherPeer, type TargetGuard } from '../target-guard.ts'
import { type AnswerGate, gateAnswers } from './answer-gate.ts'

/**
 * The maximum idle time of a connection that may still be reused. Most servers keep idle connections open for longer
 * than this.
 */
const WEBHOOK_REUSE_MS = 1_000

/** A connection to one origin at one of the checked addresses. It serves one attempt at a time. */
export type Connection = {
  client: Client
  /** Whether an earlier attempt has already received a response on this connection. */
  readonly used: boolean
}

export type ConnectionBook = {
  /**
   * Opens or reuses a connection to a target. The target's addresses have already been checked. Release the connection
   * with `keep`, `drop` or `distrust`.
   * @param deadline when the attempt must end, on the monotonic clock; also limits the time to connect
   */
  take(target: Target, addresses: readonly string[], deadline: number): Connection
  /** Releases a connection whose response was read completely, so that another attempt may reuse it. */
  keep(connection: Connection): void
  /** Closes the connection. */
  drop(connection: Connection): void
  /**
   * Closes the connection, and stops reusing connections to this origin: its server closes idle connections without
   * notice.
   */
  distrust(connection: Connection): void
  close(): Promise<void>
}

export type ConnectionDeps = { guard: TargetGuard; clock: Clock; ca?: string | undefined }

type Kept = {
  key: string
  client: Client
  used: boolean
  deadline: number
  freeAt: number
  socket: Socket | undefined
  gate: AnswerGate | undefined
}

const DISTRUSTED = 10_000

/**
 * Keeps idle connections for reuse. A connection is reused only if it has been idle for less than WEBHOOK_REUSE_MS and
 * the addresses that were just checked include its address. If a host name's addresses change, new connections are
 * opened. The idle time is short, because an attempt must not send a POST twice. If a server closes an idle connection
 * during a POST, it is unknown whether the server has read the POST.
 */
export function createConnectionBook(deps: ConnectionDeps): ConnectionBook {
  const { clock } = deps
  const idle = new Map<string, Kept[]>()
  const open = new Map<Connection, Kept>()
  const distrusted = new LRUCache<string, true>({ max: DISTRUSTED })

  function connect(key: string, target: Target, addresses: readonly string[]): Kept {
    const client = new Client(target.origin, {
      pipelining: 1,
      keepAliveTimeout: WEBHOOK_REUSE_MS,
      keepAliveMaxTimeout: WEBHOOK_REUSE_MS,
      // Disables undici's timeouts, because each attempt enforces its own time limits.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect(_, answer) {
        dial(target, addresses, deps, kept.deadline).then(
          (socket) => {
            kept.socket = socket
            kept.gate = gateAnswers(socket)
            socket.once('close', () => isIdle(kept) && forget(kept))
            answer(null, socket)
          },
          (error) => answer(error, null),
        )
      },
    })
    const kept: Kept = { key, client, used: false, deadline: 0, freeAt: 0, socket: undefined, gate: undefined }
    open.set(kept, kept)
    return kept
  }

  const isIdle = (kept: Kept): boolean => idle.get(kept.key)?.includes(kept) === true

  function takeIdle(key: string): Kept | undefined {
    const all = idle.get(key)
    // Reuses the most recently used connection first.
    for (let kept = all?.pop(); kept; kept = all?.pop()) {
      if (all?.length === 0) idle.delete(key)
      if (kept.socket?.destroyed === false && kept.freeAt + WEBHOOK_REUSE_MS > clock.monotonic()) return kept
      forget(kept)
    }
    return undefined
  }

  function forget(kept: Kept): void {
    open.delete(kept)
    const others = idle.get(kept.key)?.filter((other) => other !== kept) ?? []
    if (others.length > 0) idle.set(kept.key, others)
    else idle.delete(kept.key)
    void kept.client.destroy()
  }

  function drop(connection: Connection): void {
    const kept = open.get(connection)
    if (kept) forget(kept)
  }

  return {
    take(target, addresses, deadline) {
      const key = `${target.origin} ${addresses.join()}`
      const kept = takeIdle(key) ?? connect(key, target, addresses)
      kept.deadline = deadline
      kept.gate?.begin()
      return kept
    },
    keep(connection) {
      const kept = open.get(connection)
      if (!kept) return
      if (kept.socket?.destroyed !== false || distrusted.has(kept.key)) return forget(kept)
      kept.used = true
      kept.freeAt = clock.monotonic()
      const others = idle.get(kept.key)
      if (others) others.push(kept)
      else idle.set(kept.key, [kept])
    },
    drop,
    distrust(connection) {
      const kept = open.get(connection)
      if (kept) distrusted.set(kept.key, true)
      drop(connection)
    },
    async close() {
      const all = [...open.values()]
      open.clear()
      idle.clear()
      await Promise.all(all.map(({ client }) => client.destroy()))
    },
  }
}

/** Connects a socket to one of the addresses, and to no other address. The promise settles by `deadline`. */
function dial(target: Target, addresses: readonly string[], deps: ConnectionDeps, deadline: number): Promise<Socket> {
  const { guard, clock, ca } = deps
  const options = {
    host: target.literal ?? target.host,
    port: target.port,
    // Returns the checked addresses, so that the name is not resolved again.
    lookup: lookupWith(async () => addresses),
    autoSelectFamily: true,
    noDelay: true,
  }
  const secure = target.url.protocol === 'https:'
  return new Promise((resolve, reject) => {
    const socket = secure
      ? connectTls({
          ...options,
          ...(target.literal === undefined && { servername: target.host }),
          ALPNProtocols: ['http/1.1'],
          // This option is set explicitly, because its default changes if the environment contains
          // NODE_TLS_REJECT_UNAUTHORIZED=0.
          rejectUnauthorized: true,
          ...(ca !== undefined && { ca }),
        })
      : connectTcp(options)
    const timer = clock.after(Math.max(0, deadline - clock.monotonic()), () => {
      socket.destroy(new Error('connect timeout'))
    })
    const failed = (error: Error) => {
      timer.cancel()
      reject(error)
    }
    const ended = () => failed(new Error('the receiver closed the connection before it was open'))
    socket.once('error', failed).once('close', ended)
    // Checks the peer address before the first byte is sent. TLS also starts on `connect`, so this listener must run
    // before it.
    socket.prependOnceListener('connect', () => {
      try {
        refuseOtherPeer(socket.remoteAddress, addresses, guard)
      } catch (error) {
        socket.destroy(error as Error)
      }
    })
    socket.once(secure ? 'secureConnect' : 'connect', () => {
      if (socket.destroyed) return
      timer.cancel()
      socket.off('error', failed).off('close', ended)
      resolve(socket)
    })
  })
}
