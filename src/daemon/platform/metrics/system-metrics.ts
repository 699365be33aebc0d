// Metrics of the daemon's connections and its store, read on each scrape.
import { type Kysely, sql } from 'kysely'
import type { Registry } from 'prom-client'
import type { Db } from '../db/db.ts'
import { engineOf } from '../db/engine.ts'
import type { Http } from '../http/server.ts'
import { readGauge } from './families.ts'

/** A provider's connections. */
type ProviderSockets = { provider: string; busy: number; free: number; waiting: number }

/** @param sockets returns the connections to the providers now */
export function createSystemMetrics(
  registers: Registry[],
  {
    db,
    http,
    sockets,
  }: { db: Db; http: Pick<Http, 'running' | 'connections'>; sockets: () => readonly ProviderSockets[] },
): void {
  readGauge({ name: 'aigw_requests_running', help: 'Requests that run now.', registers }, () => [
    { value: http.running() },
  ])
  readGauge({ name: 'aigw_client_sockets', help: 'Open connections of clients.', registers }, async () => [
    { value: await http.connections() },
  ])
  readGauge(
    {
      name: 'aigw_provider_sockets',
      help: 'Connections to a provider, by state; waiting counts calls that wait for a connection.',
      labelNames: ['provider', 'state'],
      registers,
    },
    () => summed(sockets()),
  )
  readGauge({ name: 'aigw_store_bytes', help: 'Size of the store.', registers }, async () => [
    { value: await sizeOf(db) },
  ])
}

/** A provider with several keys has several pools. */
function summed(all: readonly ProviderSockets[]) {
  const states = ['busy', 'free', 'waiting'] as const
  const providers = [...new Set(all.map(({ provider }) => provider))]
  return providers.flatMap((provider) =>
    states.map((state) => ({
      labels: { provider, state },
      value: all.reduce((sum, one) => sum + (one.provider === provider ? one[state] : 0), 0),
    })),
  )
}

async function sizeOf(db: Db): Promise<number> {
  const { rows } = await sql<{ bytes: number | string }>`${sql.raw(engineOf(db).sizeQuery)}`.execute(
    db as Kysely<unknown>,
  )
  return Number(rows[0]?.bytes ?? 0)
}
