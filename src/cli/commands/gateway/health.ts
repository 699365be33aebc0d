/** Checks the health of a gateway, once or until it is healthy. */
import { Command, Option } from 'commander'
import { type Api, CALL_TIMEOUT_MS } from '../../api/client.ts'
import { notAGateway, parseBody } from '../../api/http-errors.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT } from '../../errors.ts'
import { getDuration } from '../../input/duration.ts'
import { pause } from '../../io.ts'
import { columns, findAtPath } from '../../output/formats.ts'
import { createProgress } from '../../output/progress.ts'

/** The path of each probe, and the status that means success. */
const PROBES = {
  health: { path: 'health', status: 'healthy' },
  live: { path: '/livez', status: 'ok' },
  ready: { path: '/readyz', status: 'ready' },
} as const
const POLL_MS = 200
const VIEW = { columns: columns({ STATUS: 'status', ADDRESS: 'base_url' }) }

export function toCommand(context: CliContext): Command {
  return new Command('health')
    .description(
      'Check the health of a gateway; needs no key. Exit 0 if it is healthy, 10 if not, 9 if it is unreachable.',
    )
    .option('--wait <duration>', 'retry until it is healthy, e.g. for 30s')
    .addOption(new Option('--live', 'check only that the process responds').conflicts('ready'))
    .addOption(new Option('--ready', 'check that it accepts requests: store, migrations, not draining'))
    .action((flags: { wait?: string; live?: boolean; ready?: boolean }) =>
      checkHealth(
        context,
        flags.live ? 'live' : flags.ready ? 'ready' : 'health',
        flags.wait === undefined ? 0 : getDuration(flags.wait, '--wait'),
      ),
    )
}

type Probe = keyof typeof PROBES
type Finding = { healthy: boolean; status: number; body: object; raw: Buffer }

/**
 * Checks once. With `waitMs`, repeats the check until the gateway is healthy or that time has passed. Throws an error
 * with exit code 10 if the gateway is unhealthy, and one with exit code 9 if it does not respond.
 */
async function checkHealth(context: CliContext, probe: Probe, waitMs: number): Promise<void> {
  const { io } = context
  const [api, output, settings] = await Promise.all([context.api(), context.output(), context.settings()])
  const callMs = settings.timeoutMs ?? CALL_TIMEOUT_MS
  const deadline = io.clock.monotonic() + waitMs
  const progress = createProgress(io, settings)
  progress.show(`Waiting for ${api.baseUrl}`)
  try {
    for (let leftMs = waitMs; ; leftMs = deadline - io.clock.monotonic()) {
      // With `--wait`, this loop retries the request instead of the client. Each request has only the remaining time as
      // its timeout.
      const limits = waitMs === 0 ? {} : { timeoutMs: Math.min(callMs, leftMs), retries: 0 }
      const finding = await ask(api, probe, limits).catch((error: unknown) => {
        if (error instanceof CliError && (error.exitCode === EXIT.unreachable || error.exitCode === EXIT.upstream)) {
          return error
        }
        throw error
      })
      if (!(finding instanceof CliError) && finding.healthy) {
        progress.end()
        return await output.one({ ...finding.body, base_url: api.baseUrl }, VIEW, finding.raw)
      }
      if (deadline - io.clock.monotonic() <= POLL_MS) {
        throw finding instanceof CliError ? finding : notHealthy(api.baseUrl, finding)
      }
      await pause(POLL_MS, io)
    }
  } finally {
    progress.end()
  }
}

async function ask(api: Api, probe: Probe, limits: { timeoutMs?: number; retries?: number }) {
  const { path, status: expected } = PROBES[probe]
  const answer = await api.open({ method: 'GET', path, anonymous: true, ...limits })
  const raw = await api.read(answer)
  // If the gateway is down, a proxy may respond in its place with an arbitrary body.
  const parsed = parseBody(raw)
  const body = typeof parsed === 'object' && parsed !== null ? parsed : {}
  const healthy = answer.status === 200 && findAtPath(body, 'status') === expected
  return { healthy, status: answer.status, body, raw } satisfies Finding
}

function notHealthy(baseUrl: string, { status, body }: Finding): CliError {
  if (status === 200 && typeof findAtPath(body, 'status') !== 'string') {
    const message = `${baseUrl} is not an aigw gateway`
    return notAGateway(EXIT.checkFailed, message, { httpStatus: status, retryable: true })
  }
  const checks = findAtPath(body, 'checks')
  const failing = Object.entries(typeof checks === 'object' && checks !== null ? checks : {}).filter(
    ([, passed]) => passed !== true,
  )
  return new CliError(EXIT.checkFailed, `the gateway at ${baseUrl} is not healthy (HTTP ${status})`, {
    code: 'NOT_HEALTHY',
    httpStatus: status,
    retryable: true,
    hints: [...failing.map(([name]) => `Failing:  ${name}`), 'Wait for it:  aigw health --wait 30s'],
  })
}
