/** Checks that need only the address of the gateway and a key. */
import type { z } from 'zod'
import { DAY_MS } from '../../../../shared/time.ts'
import type { ListModelsResponse } from '../../../../shared/wire/discovery.ts'
import type { Api } from '../../../api/client.ts'
import { parseBody } from '../../../api/http-errors.ts'
import type { CliContext } from '../../../context.ts'
import { CliError, EXIT } from '../../../errors.ts'
import { findAtPath } from '../../../output/formats.ts'
import { areCredentialsExposed, configPath, credentialsPath } from '../../../profile/config-files.ts'
import { findKey } from '../../../profile/key-source.ts'
import type { Whoami } from '../../account/whoami.ts'
import { type Finding, fail, ok, warn } from './finding.ts'

/** Webhook signatures are valid for 300 s. A smaller difference is still worth a warning. */
const CLOCK_MS = { warn: 5_000, fail: 120_000 }
const EXPIRES_SOON_MS = 14 * DAY_MS

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
const hintOf = (error: unknown): string => (error instanceof CliError ? (error.hints.at(-1) ?? '') : '')

/** Yields the findings about the gateway. If it is unreachable, yields nothing that depends on it. */
export async function* checkGateway(context: CliContext): AsyncGenerator<Finding> {
  const { io } = context
  const [api, settings] = await Promise.all([context.api(), context.settings()])
  yield ok('settings', `profile '${settings.profile}', ${configPath(io.env)}`)
  yield (await areCredentialsExposed(io.env))
    ? warn('credentials', 'others can read your keys', `chmod 600 ${credentialsPath(io.env)}`)
    : ok('credentials', credentialsPath(io.env))
  const reached = await reach(context, api)
  yield* reached.findings
  if (!reached.isGateway) return
  yield* await readiness(api)
  yield* await checkKey(context, api)
}

async function reach({ io }: CliContext, api: Api): Promise<{ findings: Finding[]; isGateway: boolean }> {
  const startedAt = io.clock.monotonic()
  try {
    const answer = await api.open({ method: 'GET', path: 'health', anonymous: true, retries: 0 })
    const body = parseBody(await api.read(answer))
    const ms = Math.round(io.clock.monotonic() - startedAt)
    const version = findAtPath(body, 'version')
    if (typeof version !== 'string') {
      const finding = fail('gateway', `${api.baseUrl} is not an aigw gateway`, 'aigw profiles list')
      return { findings: [finding], isGateway: false }
    }
    const about = `${version} at ${api.baseUrl} (${ms} ms)`
    const finding =
      answer.status === 200
        ? ok('gateway', about)
        : fail('gateway', `${about} answers ${answer.status}`, "see the gateway's log: journalctl -u aigw")
    return { findings: [finding, ...clockFinding(answer.headers.date, io.clock.now())], isGateway: true }
  } catch (error) {
    if (!(error instanceof CliError)) throw error
    const remedy = error.exitCode === EXIT.unreachable ? 'systemctl status aigw, or aigw serve' : hintOf(error)
    return { findings: [fail('gateway', error.message, remedy)], isGateway: false }
  }
}

/** `Date` has a resolution of one second. */
function clockFinding(date: string | undefined, now: number): Finding[] {
  const at = Date.parse(date ?? '')
  if (Number.isNaN(at)) return []
  const difference = now - at
  const seconds = Math.round(Math.abs(difference) / 1_000)
  const detail = `this clock is ${seconds} s ${difference < 0 ? 'behind' : 'ahead of'} the gateway's`
  const remedy = 'synchronise both machines: timedatectl set-ntp true'
  if (Math.abs(difference) > CLOCK_MS.fail) return [fail('clock', detail, remedy)]
  return [Math.abs(difference) > CLOCK_MS.warn ? warn('clock', detail, remedy) : ok('clock', detail)]
}

/** The checks of /readyz, in words. */
const READINESS: Record<string, { check: string; passed: string; failed: string; remedy: string }> = {
  store: {
    check: 'store',
    passed: 'answers and accepts writes',
    failed: 'does not answer or rejects writes',
    remedy: 'check the disk and the database of the gateway',
  },
  migrations: {
    check: 'migrations',
    passed: 'complete',
    failed: 'the schema does not match this version',
    remedy: 'restart the gateway, or install its version',
  },
  master_key: {
    check: 'master key',
    passed: 'that of the store',
    failed: 'the gateway does not have the master key of the store',
    remedy: 'set master_key to the key of the store, see docs/how-to/rotate-secrets.md',
  },
  accepting: {
    check: 'requests',
    passed: 'accepted',
    failed: 'the gateway is shutting down',
    remedy: 'wait or start it',
  },
  evidence: { check: 'evidence', passed: 'complete', failed: 'a part is lost', remedy: 'aigw audit losses' },
  secrets: {
    check: 'secrets',
    passed: 'can be opened',
    failed: 'some secrets of the store cannot be opened',
    remedy: 'aigw secrets status',
  },
}

async function readiness(api: Api): Promise<Finding[]> {
  const answer = await api.open({ method: 'GET', path: '/readyz', anonymous: true, retries: 0 })
  const body = parseBody(await api.read(answer))
  const lost = findAtPath(body, 'lost_history')
  const findings = Object.entries(Object(findAtPath(body, 'checks'))).map(([name, passes]) => {
    const { check, passed, failed, remedy } = READINESS[name] ?? {
      ...{ check: name, passed: 'passed', failed: 'failed', remedy: "see the gateway's log: journalctl -u aigw" },
    }
    const which = name === 'evidence' && Array.isArray(lost) ? `: ${lost.join(', ')}` : ''
    return passes === true ? ok(check, passed) : fail(check, `${failed}${which}`, remedy)
  })
  // Some answers have no checks, such as those of a proxy.
  if (answer.status === 200 ? findings.length > 0 : findings.some(({ status }) => status === 'fail')) return findings
  const detail = `/readyz answers ${answer.status} without a failed check`
  return [...findings, fail('readiness', detail, "see the gateway's log: journalctl -u aigw")]
}

async function checkKey(context: CliContext, api: Api): Promise<Finding[]> {
  const { io } = context
  try {
    if ((await findKey(await context.settings(), io, context.note)) === undefined) {
      return [warn('key', `no key for ${api.baseUrl}`, `aigw login --base-url ${api.baseUrl}`)]
    }
    const { body } = await api.send<Whoami>({ method: 'GET', path: 'whoami' })
    const expiresAt = Date.parse(body.api_key.expiresAt ?? '')
    const about = `${body.api_key.name} of ${body.user.name}`
    const days = Math.floor((expiresAt - io.clock.now()) / DAY_MS)
    const key =
      expiresAt - io.clock.now() < EXPIRES_SOON_MS
        ? warn('key', `${about} expires in ${days} days`, `aigw keys update ${body.api_key.id} --expires 90d`)
        : ok('key', about)
    return [key, await checkModels(api)]
  } catch (error) {
    if (!(error instanceof CliError)) throw error
    return [fail('key', messageOf(error), error.hints.join(' ') || 'aigw login')]
  }
}

async function checkModels(api: Api): Promise<Finding> {
  type Models = z.infer<typeof ListModelsResponse>
  const { body } = await api.send<Models>({ method: 'GET', path: 'models' })
  const names = [...new Set(body.models.map(({ provider }) => provider))]
  const detail = `${body.models.length} models of ${names.join(', ')}`
  if (body.models.length === 0)
    return fail('providers', 'this key may use no model', 'aigw keys update KEY --model MODEL')
  if (names.every((name) => name === 'local')) {
    return warn('providers', `${detail}; no provider is configured`, 'aigw init, or docs/how-to/add-a-provider.md')
  }
  return ok('providers', `${detail}; test one with: aigw models test MODEL`)
}
