// Detects within seconds that a PostgreSQL server, or a connection to it, no longer answers. A statement timeout would
// be too slow: a frozen server must be detected before the longest statement can finish.
import type { PoolClient } from 'pg'
import type { StoreLog } from './db.ts'
import { markStoreFailure } from './store-failure.ts'

/**
 * All times in milliseconds. `suspectMs`: after this time without an answer, the server is probed. `probeMs`: the
 * maximum time of a probe. `retryMs`: the time between probes of a server that is down.
 */
export type WatchTimes = { suspectMs: number; probeMs: number; retryMs: number }

/** A statement, or a request for a connection, that waits for the server. */
type Waiting = { sinceMs: number; client: PoolClient | undefined; fail(error: Error): void }

export type ServerWatch = {
  /**
   * Runs `work`, which waits for the server. Rejects with a store error while the server is down. `discard` receives a
   * result that arrives after the rejection.
   */
  run<T>(client: PoolClient | undefined, work: () => Promise<T>, discard?: (result: T) => void): Promise<T>
  close(): void
}

export type ServerWatchDeps = {
  times: WatchTimes
  log: StoreLog | undefined
  /**
   * Returns the server processes in this list that are not running a statement. Uses a new connection. Rejects if the
   * server does not answer within `probeMs`.
   */
  probe(processIds: readonly number[]): Promise<ReadonlySet<number>>
  /** Closes the connections of these clients and all unused connections, or all connections. */
  disconnect(clients: 'all' | readonly PoolClient[], error: Error): void
}

const silence = () => markStoreFailure(new Error('PostgreSQL did not answer in time'))

// up -> up: the server answers the probe. If its process runs no statement although we wait for one, the connection is
//   lost, for example because a firewall has forgotten it. Lost and unused connections are closed.
// up -> down: the server does not answer the probe. All connections are closed, and all work fails immediately.
// down -> down: a probe fails; the next one follows after retryMs.
// down -> up: the server answers a probe.
export function createServerWatch({ times, log, probe, disconnect }: ServerWatchDeps): ServerWatch {
  // In order of arrival, so the first entry has waited longest.
  const waiting = new Set<Waiting>()
  let isDown = false
  let isClosed = false
  let timer: NodeJS.Timeout | undefined

  function schedule(): void {
    if (timer !== undefined || isClosed) return
    const [first] = waiting
    if (isDown) timer = after(times.retryMs, retry)
    else if (first) timer = after(first.sinceMs + times.suspectMs - performance.now(), check)
  }

  function after(ms: number, run: () => Promise<void>): NodeJS.Timeout {
    const started = setTimeout(() => {
      void run().finally(() => {
        timer = undefined
        schedule()
      })
    }, ms)
    return started.unref()
  }

  async function check(): Promise<void> {
    const nowMs = performance.now()
    const suspects = [...waiting].filter(({ sinceMs }) => sinceMs + times.suspectMs <= nowMs)
    if (suspects.length === 0) return
    try {
      const idle = await probe(suspects.flatMap(({ client }) => processIdOf(client) ?? []))
      const lost: PoolClient[] = []
      for (const suspect of suspects) {
        if (!waiting.delete(suspect)) continue
        if (suspect.client && idle.has(processIdOf(suspect.client) ?? -1)) lost.push(suspect.client)
        // A long statement is checked again after suspectMs.
        suspect.sinceMs = performance.now()
        waiting.add(suspect)
      }
      if (lost.length > 0) disconnect(lost, silence())
    } catch (cause) {
      isDown = true
      log?.error({ err: cause }, 'PostgreSQL does not answer; requests are rejected until it answers')
      const error = silence()
      for (const { fail } of waiting) fail(error)
      waiting.clear()
      disconnect('all', error)
    }
  }

  async function retry(): Promise<void> {
    isDown = await probe([]).then(
      () => false,
      () => true,
    )
  }

  return {
    run(client, work, discard) {
      if (isDown) return Promise.reject(silence())
      return new Promise((resolve, reject) => {
        const one: Waiting = { sinceMs: performance.now(), client, fail: reject }
        waiting.add(one)
        if (timer === undefined) schedule()
        work().then(
          (result) => {
            if (waiting.delete(one)) resolve(result)
            else discard?.(result)
          },
          (error: unknown) => {
            waiting.delete(one)
            reject(error)
          },
        )
      })
    },
    close() {
      isClosed = true
      clearTimeout(timer)
    },
  }
}

/** The id of the server's process, which `pg` has but does not declare. */
const processIdOf = (client: PoolClient | undefined): number | undefined =>
  (client as { processID?: number } | undefined)?.processID
