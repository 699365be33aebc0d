import { Command, Option } from 'commander'
import { type Api, CALL_TIMEOUT_MS, pause } from '../../api/client.ts'
import { notAGateway, parseBody } from '../../api/http-errors.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT } from '../../errors.ts'
import { getDuration } from '../../input/duration.ts'
import { findAtPath } from '../../output/formats.ts'
import { createProgress } from '../../output/progress.ts'

export type HealthInput = { probe: 'health' | 'live' | 'ready'; waitMs: number }

/** Where to ask, and the one answer that means well (spec: health; the probes of the root). */
const PROBES = {
  health: { path: 'health', status: 'healthy' },
  live: { path: '/livez', status: 'ok' },
  ready: { path: '/readyz', status: 'ready' },
} as const
const POLL_MS = 200
const VIEW = { columns: [{ path: 'status' }, { path: 'base_url', title: 'ADDRESS' }] }

export function toCommand(context: CliContext, run = checkHealth): Command {
  return new Command('health')
    .description(
      'Ask a gateway whether it is well; needs no key. Exit 0 when it is, 10 when not, 9 when it cannot be reached.',
    )
    .option('--wait <duration>', 'keep asking until it is well, e.g. 30s')
    .addOption(new Option('--live', 'only whether the process answers').conflicts('ready'))
    .addOption(new Option('--ready', 'whether it takes requests: store, migrations, not draining'))
    .action((flags: { wait?: string; live?: boolean; ready?: boolean }) =>
      run(context, {
        probe: flags.live ? 'live' : flags.ready ? 'ready' : 'health',
        waitMs: flags.wait === undefined ? 0 : getDuration(flags.wait, '--wait'),
      }),
    )
}

type Finding = { well: boolean; status: number; body: object; raw: Buffer }

/** Asks once, or until `waitMs` have passed; throws exit 10 or, when nobody answers, exit 9. */
export async function checkHealth(context: CliContext, { probe, waitMs }: HealthInput): Promise<void> {
  const { io } = context
  const [api, output, settings] = await Promise.all([context.api(), context.output(), context.settings()])
  const callMs = settings.timeoutMs ?? CALL_TIMEOUT_MS
  const deadline = io.clock.monotonic() + waitMs
  const progress = createProgress(io, settings)
  progress.show(`Waiting for ${api.baseUrl}`)
  try {
    for (let leftMs = waitMs; ; leftMs = deadline - io.clock.monotonic()) {
      // While waiting, this loop does the repeating, and no single question may outlast the wait.
      const limits = waitMs === 0 ? {} : { timeoutMs: Math.min(callMs, leftMs), retries: 0 }
      const finding = await ask(api, probe, limits).catch((error: unknown) => {
        if (error instanceof CliError && (error.exitCode === EXIT.unreachable || error.exitCode === EXIT.upstream)) {
          return error
        }
        throw error
      })
      if (!(finding instanceof CliError) && finding.well) {
        progress.end()
        return await output.one({ ...finding.body, base_url: api.baseUrl }, VIEW, finding.raw)
      }
      if (deadline - io.clock.monotonic() <= POLL_MS) {
        throw finding instanceof CliError ? finding : notWell(api.baseUrl, finding)
      }
      await pause(POLL_MS, io)
    }
  } finally {
    progress.end()
  }
}

async function ask(api: Api, probe: HealthInput['probe'], limits: { timeoutMs?: number; retries?: number }) {
  const { path, status: expected } = PROBES[probe]
  const answer = await api.open({ method: 'GET', path, anonymous: true, ...limits })
  const raw = await api.read(answer)
  // A proxy may answer for a gateway that is down, with anything.
  const parsed = parseBody(raw)
  const body = typeof parsed === 'object' && parsed !== null ? parsed : {}
  const well = answer.status === 200 && findAtPath(body, 'status') === expected
  return { well, status: answer.status, body, raw } satisfies Finding
}

function notWell(baseUrl: string, { status, body }: Finding): CliError {
  if (status === 200 && typeof findAtPath(body, 'status') !== 'string') {
    const message = `${baseUrl} answered, but not as a gateway does`
    return notAGateway(EXIT.checkFailed, message, { httpStatus: status, retryable: true })
  }
  const checks = findAtPath(body, 'checks')
  const failing = Object.entries(typeof checks === 'object' && checks !== null ? checks : {}).filter(
    ([, well]) => well !== true,
  )
  return new CliError(EXIT.checkFailed, `the gateway at ${baseUrl} is not well (HTTP ${status})`, {
    code: 'NOT_HEALTHY',
    httpStatus: status,
    retryable: true,
    hints: [...failing.map(([name]) => `Failing:  ${name}`), 'Wait for it:  aigw health --wait 30s'],
  })
}
