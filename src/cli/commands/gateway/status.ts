/** Shows the state of a gateway in one card. */
import { Command } from 'commander'
import type { Api } from '../../api/client.ts'
import { notAGateway, parseBody } from '../../api/http-errors.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT } from '../../errors.ts'
import { columns, findAtPath } from '../../output/formats.ts'
import { findKey } from '../../profile/key-source.ts'
import { fetchModels } from '../models/commands.ts'

const VIEW = {
  columns: columns(
    { STATUS: 'status', ADDRESS: 'base_url', VERSION: 'version', STARTED: 'started_at' },
    { STORE: 'checks.store', MIGRATIONS: 'checks.migrations', ACCEPTING: 'checks.accepting' },
    { EVIDENCE: 'checks.evidence', 'LOST HISTORY': 'lost_history', PROVIDERS: 'providers', MODELS: 'models' },
    { 'REQUESTS NOW': 'requests_running', 'WEBHOOK QUEUE': 'webhook_queue', 'STORE (MIB)': 'store_mib' },
    { 'MEMORY (MIB)': 'memory_mib' },
  ),
  idPath: 'base_url',
  members: [
    ...['status', 'base_url', 'version', 'started_at', 'checks', 'lost_history', 'providers', 'models'],
    ...['requests_running', 'webhook_queue', 'store_mib', 'memory_mib'],
  ],
}

export function toCommand(context: CliContext): Command {
  return new Command('status')
    .description(
      'Show the state of a gateway: version, checks, providers, and with the operator key its load, store and memory.\n' +
        'Exit 10 if it does not serve requests.',
    )
    .action(() => showStatus(context))
}

async function showStatus(context: CliContext): Promise<void> {
  const [api, output, settings] = await Promise.all([context.api(), context.output(), context.settings()])
  output.assertShowable(VIEW)
  const [health, ready] = [await probe(api, 'health'), await probe(api, '/readyz')]
  if (typeof findAtPath(health, 'version') !== 'string') {
    throw notAGateway(EXIT.error, `${api.baseUrl} is not an aigw gateway`, {})
  }
  const hasKey = (await findKey(settings, context.io, context.note)) !== undefined
  const [models, metrics] = hasKey ? await Promise.all([usable(context), readMetrics(api)]) : [undefined, undefined]
  const status = findAtPath(ready, 'status')
  const started = metrics?.get('process_start_time_seconds')
  const mib = (name: string) => {
    const bytes = metrics?.get(name)
    return bytes === undefined ? null : Math.round(bytes / 1024 ** 2)
  }
  await output.one(
    {
      status,
      base_url: api.baseUrl,
      version: findAtPath(health, 'version'),
      started_at: started === undefined ? null : new Date(started * 1_000).toISOString(),
      checks: findAtPath(ready, 'checks') ?? null,
      lost_history: findAtPath(ready, 'lost_history') ?? [],
      providers: models === undefined ? null : [...new Set(models.map(({ provider }) => provider))],
      models: models?.length ?? null,
      requests_running: metrics?.get('aigw_requests_running') ?? null,
      webhook_queue: metrics?.get('aigw_webhook_queue_depth') ?? null,
      store_mib: mib('aigw_store_bytes'),
      memory_mib: mib('process_resident_memory_bytes'),
    },
    VIEW,
  )
  if (status !== 'ready' && status !== 'degraded') {
    throw new CliError(EXIT.checkFailed, `the gateway at ${api.baseUrl} does not serve requests`, {
      code: 'NOT_HEALTHY',
      retryable: true,
      hints: ['Find the cause:  aigw doctor'],
    })
  }
}

const probe = async (api: Api, path: string): Promise<unknown> =>
  parseBody(await api.read(await api.open({ method: 'GET', path, anonymous: true })))

const usable = async (context: CliContext) => (await fetchModels(context)).models

/** Returns the metrics, summed over their labels. Only the operator key may read metrics. */
async function readMetrics(api: Api): Promise<Map<string, number> | undefined> {
  const answer = await api.open({ method: 'GET', path: '/metrics' })
  const text = (await api.read(answer)).toString()
  if (answer.status !== 200) return undefined
  const sums = new Map<string, number>()
  for (const line of text.split('\n')) {
    const [, name, value] = /^([a-z_]+)(?:\{[^}]*\})? ([0-9.e+-]+)$/i.exec(line) ?? []
    if (name !== undefined) sums.set(name, (sums.get(name) ?? 0) + Number(value))
  }
  return sums
}
