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
    { 'MEMORY (MIB)': 'memory_mib' },
  ),
  idPath: 'base_url',
  members: [
    ...['status', 'base_url', 'version', 'started_at', 'checks', 'lost_history', 'providers', 'models'],
    'memory_mib',
  ],
}

export function toCommand(context: CliContext): Command {
  return new Command('status')
    .description(
      'Show the state of a gateway: version, checks, providers, and with the operator key its uptime and memory.\n' +
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
  const memory = metrics?.get('process_resident_memory_bytes')
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
      memory_mib: memory === undefined ? null : Math.round(memory / 1024 ** 2),
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

/** Returns the values of metrics without labels. Only the operator key may read metrics. */
async function readMetrics(api: Api): Promise<Map<string, number> | undefined> {
  const answer = await api.open({ method: 'GET', path: '/metrics' })
  const text = (await api.read(answer)).toString()
  if (answer.status !== 200) return undefined
  return new Map(
    text.split('\n').flatMap((line) => {
      const [, name, value] = /^([a-z_:]+) ([0-9.e+-]+)$/i.exec(line) ?? []
      return name === undefined ? [] : [[name, Number(value)] as const]
    }),
  )
}
