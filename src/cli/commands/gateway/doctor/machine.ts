/** Checks of a gateway's files on this machine: configuration, permissions, disk and names. */
import { lookup } from 'node:dns/promises'
import { readFile, stat, statfs } from 'node:fs/promises'
import { isIP } from 'node:net'
import { dirname, join, resolve } from 'node:path'
import type { CliContext } from '../../../context.ts'
import { CliError, isErrno } from '../../../errors.ts'
import { findAtPath } from '../../../output/formats.ts'
import { findConfigFaults } from '../check-config.ts'
import { type Finding, fail, ok, warn } from './finding.ts'

/** Free space below which a store soon stops. */
const FREE_BYTES = { warn: 1024 ** 3, fail: 100 * 1024 ** 2 }
const SMALLEST_NODE = [20, 19] as const

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
    const why = isErrno(error) && error.code === 'ENOENT' ? 'does not exist' : String(error)
    yield fail('configuration', `${path} ${why}`, `aigw init --config ${path}`)
    return
  }
  const faults = await findConfigFaults(path, io).catch((error: unknown) => {
    if (error instanceof CliError) return [error.message]
    throw error
  })
  if (faults.length === 0) yield ok('configuration', `${path} is valid`)
  for (const fault of faults) yield fail('configuration', fault, `correct ${path}`)
  const { parseDocument } = await import('yaml')
  const content: unknown = parseDocument(text).toJS() ?? {}
  yield* await permissions(path, content)
  const dataDir = findAtPath(content, 'data_dir')
  const known = typeof dataDir === 'string' ? resolve(dirname(path), dataDir) : defaultDataDir(io.env)
  yield* await diskFindings(known)
  for (const host of hostsIn(content)) yield await hostFinding(host, resolveHost)
}

function nodeFinding(version: string): Finding {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [needsMajor, needsMinor] = SMALLEST_NODE
  const isNew = major > needsMajor || (major === needsMajor && minor >= needsMinor)
  return isNew ? ok('node', version) : fail('node', version, `install Node ${SMALLEST_NODE.join('.')} or newer`)
}

/** The daemon's own default outside systemd (docs/configuration.md, Environment). Under systemd it is /var/lib/aigw. */
export function defaultDataDir(env: Record<string, string | undefined>): string {
  const given = env.AIGW_DATA_DIR ?? ''
  if (given !== '') return given
  const state = env.XDG_STATE_HOME ?? ''
  return join(state.startsWith('/') ? state : join(env.HOME ?? '/', '.local', 'state'), 'aigw')
}

/** Secrets must be unreadable for others: as text in the configuration, and in the files that it names. */
async function permissions(path: string, content: unknown): Promise<Finding[]> {
  const findings: Finding[] = []
  const own = await stat(path)
  const texts = [...secretTexts(content)]
  if ((own.mode & 0o022) !== 0) findings.push(fail('permissions', `others can change ${path}`, `chmod go-w ${path}`))
  if (texts.length > 0 && (own.mode & 0o004) !== 0) {
    const where = `${path} contains ${texts.join(', ')}, and everyone can read it`
    findings.push(fail('permissions', where, `chmod 640 ${path}, or use {file: PATH}`))
  }
  for (const name of secretFiles(content)) {
    const file = resolve(dirname(path), name)
    const found = await stat(file).catch(() => undefined)
    if (found?.isFile() === true && (found.mode & 0o077) !== 0) {
      findings.push(fail('permissions', `others can read the secret ${file}`, `chmod 600 ${file}`))
    }
  }
  return findings.length > 0 ? findings : [ok('permissions', 'secrets are private')]
}

const SECRETS: ReadonlySet<string> = new Set(['api_key', 'bootstrap_key', 'master_key', 'url'])

/** Yields the paths of secrets that are written as text. */
function* secretTexts(value: unknown, at: string[] = []): Generator<string> {
  if (typeof value === 'object' && value !== null) {
    for (const [name, entry] of Object.entries(value)) yield* secretTexts(entry, [...at, name])
  } else if (typeof value === 'string' && SECRETS.has(at.at(-1) ?? '')) {
    if (at.at(-1) !== 'url' || /:\/\/[^/@]*:[^/@]+@/.test(value)) yield at.join('.')
  }
}

/** Yields the files of references such as `{file: PATH}`. */
function* secretFiles(value: unknown): Generator<string> {
  if (typeof value !== 'object' || value === null) return
  const entries = Object.entries(value)
  const [only] = entries
  if (entries.length === 1 && only?.[0] === 'file' && typeof only[1] === 'string') yield only[1]
  else for (const [, entry] of entries) yield* secretFiles(entry)
}

async function diskFindings(dataDir: string): Promise<Finding[]> {
  const found = await stat(dataDir).catch(() => undefined)
  if (found === undefined) return [warn('disk', `${dataDir} does not exist yet`, 'the first start creates it')]
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
    else if (typeof value === 'string' && /^(https?|postgres(ql)?):\/\//.test(value) && URL.canParse(value)) {
      const { hostname } = new URL(value)
      if (hostname !== '') hosts.add(hostname.replace(/^\[|\]$/g, ''))
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
