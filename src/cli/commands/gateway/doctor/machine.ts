/** Checks of a gateway's files on this machine: configuration, permissions, disk and names. */
import { lookup } from 'node:dns/promises'
import { Stats } from 'node:fs'
import { readFile, stat, statfs } from 'node:fs/promises'
import { isIP } from 'node:net'
import { dirname, join, resolve } from 'node:path'
import { parseUrl } from '../../../../shared/url.ts'
import { withoutSecretSettings } from '../../../api/secret-members.ts'
import type { CliContext } from '../../../context.ts'
import { CliError, isErrno, unreadable } from '../../../errors.ts'
import { findAtPath } from '../../../output/formats.ts'
import { findConfigFaults, secretsFolder } from '../check-config.ts'
import { type Finding, fail, ok, warn } from './finding.ts'

/** Free space below which a store soon stops. */
const FREE_BYTES = { warn: 1024 ** 3, fail: 100 * 1024 ** 2 }
const SMALLEST_NODE = [20, 19] as const
/** The configuration and the StateDirectory= of the systemd unit. */
export const SYSTEM_FILE = '/etc/aigw/aigw.yaml'
const SYSTEM_DATA_DIR = '/var/lib/aigw'
/** A part of the daemon's message about a secret that it cannot read. */
const NOT_ALLOWED = 'this user may not read it'
const AS_ROOT = 'sudo aigw doctor'

/** Resolves the addresses of a host. Tests replace it. */
export type ResolveHost = (host: string) => Promise<unknown>

/** Yields the findings about the gateway whose configuration is this file. */
export async function* checkMachine(
  { io }: CliContext,
  path: string,
  resolveHost: ResolveHost = lookup,
): AsyncGenerator<Finding> {
  yield nodeFinding(process.versions.node)
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    yield unreadableFinding(path, error)
    return
  }
  const faults = await findConfigFaults(path, io).catch((error: unknown) => {
    if (error instanceof CliError) return [error.message]
    throw error
  })
  if (faults.length === 0) yield ok('configuration', `${path} is valid`)
  for (const fault of faults) {
    // Other users than root cannot read the secrets of a service.
    if (fault.includes(NOT_ALLOWED)) yield warn('configuration', fault, AS_ROOT)
    else yield fail('configuration', fault, `correct ${path}`)
  }
  const { parseDocument } = await import('yaml')
  const content: unknown = parseDocument(text).toJS() ?? {}
  yield* await permissions(path, content)
  yield* await diskFindings(dataDirOf(path, content, io.env))
  for (const host of hostsIn(content)) yield await hostFinding(host, resolveHost)
}

/** Returns the finding about a configuration that cannot be read. Only a missing one is to be created. */
export function unreadableFinding(path: string, error: unknown): Finding {
  const code = isErrno(error) ? error.code : undefined
  if (code === 'ENOENT') return fail('configuration', `${path} does not exist`, `aigw init --config ${path}`)
  const isForbidden = code === 'EACCES' || code === 'EPERM'
  return fail('configuration', unreadable(path, error).message, isForbidden ? AS_ROOT : `correct the path ${path}`)
}

function nodeFinding(version: string): Finding {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [needsMajor, needsMinor] = SMALLEST_NODE
  const isNew = major > needsMajor || (major === needsMajor && minor >= needsMinor)
  return isNew ? ok('node', version) : fail('node', version, `install Node ${SMALLEST_NODE.join('.')} or newer`)
}

/** The daemon's own default outside systemd (docs/configuration.md, Environment). */
export function defaultDataDir(env: Record<string, string | undefined>): string {
  const given = env.AIGW_DATA_DIR ?? ''
  if (given !== '') return given
  const state = env.XDG_STATE_HOME ?? ''
  return join(state.startsWith('/') ? state : join(env.HOME ?? '/', '.local', 'state'), 'aigw')
}

/** Returns the data directory of a configuration. The file of the system belongs to the systemd unit. */
export function dataDirOf(path: string, content: unknown, env: Record<string, string | undefined>): string {
  const given = findAtPath(content, 'data_dir')
  if (typeof given === 'string') return resolve(dirname(path), given)
  return path === SYSTEM_FILE && !env.AIGW_DATA_DIR ? SYSTEM_DATA_DIR : defaultDataDir(env)
}

/** Secrets must be unreadable for others: as text in the configuration, and in the files that it names. */
async function permissions(path: string, content: unknown): Promise<Finding[]> {
  const findings: Finding[] = []
  const own = await stat(path)
  const texts: string[] = []
  withoutSecretSettings(content, [], (at) => texts.push(at.join('.')))
  if ((own.mode & 0o022) !== 0) findings.push(fail('permissions', `others can change ${path}`, `chmod go-w ${path}`))
  if (texts.length > 0 && (own.mode & 0o004) !== 0) {
    const where = `${path} contains ${texts.join(', ')}, and everyone can read it`
    // A stricter mode of this file could lock out the user of the service.
    findings.push(
      fail('permissions', where, 'move each to its own file: {credential: NAME} of systemd, or {file: PATH}'),
    )
  }
  for (const file of secretFiles(content, path)) {
    const found = await stat(file).catch(() => undefined)
    if (found?.isFile() === true && (found.mode & 0o077) !== 0) {
      findings.push(fail('permissions', `others can read the secret ${file}`, `chmod 600 ${file}`))
    }
  }
  return findings.length > 0 ? findings : [ok('permissions', 'secrets are private')]
}

/** Yields the files of references: `{file: PATH}`, and `{credential: NAME}` in the folder of secrets. */
function* secretFiles(value: unknown, path: string): Generator<string> {
  if (typeof value !== 'object' || value === null) return
  const entries = Object.entries(value)
  const [[kind, name] = ['', undefined]] = entries
  if (entries.length === 1 && kind === 'file' && typeof name === 'string') yield resolve(dirname(path), name)
  else if (entries.length === 1 && kind === 'credential' && typeof name === 'string') {
    yield resolve(secretsFolder(path), name)
  } else for (const [, entry] of entries) yield* secretFiles(entry, path)
}

async function diskFindings(dataDir: string): Promise<Finding[]> {
  const found = await stat(dataDir).catch((error: unknown) => error)
  if (!(found instanceof Stats)) {
    return isErrno(found) && found.code === 'ENOENT'
      ? [warn('disk', `${dataDir} does not exist yet`, 'the first start creates it')]
      : [warn('disk', unreadable(dataDir, found).message, AS_ROOT)]
  }
  const { bavail, bsize } = await statfs(dataDir)
  const free = bavail * bsize
  const detail = `${(free / 1024 ** 3).toFixed(1)} GiB free for ${dataDir}`
  const space =
    free < FREE_BYTES.fail
      ? fail('disk', detail, 'free some space: the store rejects writes on a full disk')
      : free < FREE_BYTES.warn
        ? warn('disk', detail, 'free some space, or move data_dir')
        : ok('disk', detail)
  const isPrivate = (found.mode & 0o077) === 0
  return isPrivate ? [space] : [space, fail('permissions', `others can read ${dataDir}`, `chmod 700 ${dataDir}`)]
}

/** Returns the hosts of all addresses of the configuration: providers and the database. */
function hostsIn(content: unknown): Set<string> {
  const hosts = new Set<string>()
  const visit = (value: unknown): void => {
    if (typeof value === 'object' && value !== null) Object.values(value).forEach(visit)
    else if (typeof value === 'string' && /^(https?|postgres(ql)?):\/\//.test(value)) {
      const hostname = parseUrl(value)?.hostname
      if (hostname) hosts.add(hostname.replace(/^\[|\]$/g, ''))
    }
  }
  visit(content)
  return hosts
}

async function hostFinding(host: string, resolveHost: ResolveHost): Promise<Finding> {
  if (isIP(host) !== 0) return ok('dns', `${host} is an address`)
  return resolveHost(host).then(
    () => ok('dns', host),
    (error: unknown) =>
      fail(
        'dns',
        `${host} cannot be resolved (${isErrno(error) ? error.code : error})`,
        'check the name and /etc/resolv.conf',
      ),
  )
}
