import { Command, Option } from 'commander'
import { type Api, pause } from '../../client.ts'
import type { CliContext } from '../../context.ts'
import { getDuration } from '../../duration.ts'
import { CliError, EXIT } from '../../errors.ts'
import { findAtPath } from '../../formats.ts'

export type HealthInput = { probe: 'health' | 'live' | 'ready'; waitMs: number }

const PATHS = { health: 'health', live: '/livez', ready: '/readyz' } as const
const POLL_MS = 200
const VIEW = { columns: [{ path: 'status' }, { path: 'base_url', title: 'ADDRESS' }] }

export function healthCommand(context: CliContext, run = checkHealth): Command {
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
  const [api, output] = await Promise.all([context.api(), context.output()])
  const deadline = io.clock.monotonic() + waitMs
  for (;;) {
    const finding = await ask(api, PATHS[probe]).catch((error: unknown) => {
      if (error instanceof CliError && error.exitCode === EXIT.unreachable) return error
      throw error
    })
    if (!(finding instanceof CliError) && finding.well) {
      return output.one({ ...finding.body, base_url: api.baseUrl }, VIEW, finding.raw)
    }
    const leftMs = deadline - io.clock.monotonic()
    if (leftMs <= 0) throw finding instanceof CliError ? finding : notWell(api.baseUrl, finding)
    await pause(Math.min(POLL_MS, leftMs), io)
  }
}

async function ask(api: Api, path: string): Promise<Finding> {
  const answer = await api.open({ method: 'GET', path, auth: 'none' })
  const raw = await api.read(answer)
  return { well: answer.status === 200, status: answer.status, body: toObject(raw), raw }
}

// A proxy may answer for a gateway that is down, with anything.
function toObject(raw: Buffer): object {
  try {
    const body: unknown = JSON.parse(raw.toString())
    return typeof body === 'object' && body !== null ? body : {}
  } catch {
    return {}
  }
}

function notWell(baseUrl: string, { status, body }: Finding): CliError {
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
