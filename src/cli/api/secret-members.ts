// The members of requests and of configuration files that contain secrets.

const SECRET_MEMBERS: ReadonlySet<string> = new Set(['api_key', 'api_keys', 'credentials', 'headers', 'proxy'])

/** Returns a copy of the body of a request for people to read. */
export const withoutSecretMembers = (json: unknown): unknown =>
  JSON.parse(JSON.stringify(json), (name, value) => (SECRET_MEMBERS.has(name) && value !== null ? '***' : value))

/** The settings of a gateway whose texts are secrets. Of `proxy`, as of every URL, only the password is masked. */
const SECRET_SETTINGS: ReadonlySet<string> = new Set([
  ...[...SECRET_MEMBERS].filter((name) => name !== 'proxy'),
  ...['bootstrap_key', 'master_key', 'next_master_key', 'token', 'password', 'secret'],
  ...['secret_access_key', 'session_token'],
])
/** The ways to refer to a secret that is elsewhere. */
const REFERENCES: ReadonlySet<string> = new Set(['env', 'file', 'credential', 'command'])

/**
 * Returns a copy of a part of a configuration file for people to read. `path` is where the part is in the file. A
 * reference such as `{file: PATH}` is no secret. Calls `found` with the path of each masked text.
 */
export function withoutSecretSettings(
  value: unknown,
  path: readonly string[] = [],
  found: (path: readonly string[]) => void = () => {},
): unknown {
  if (Array.isArray(value)) return value.map((entry, at) => withoutSecretSettings(entry, [...path, String(at)], found))
  if (typeof value === 'object' && value !== null) {
    if (isReference(value, path)) return value
    return Object.fromEntries(
      Object.entries(value).map(([name, entry]) => [name, withoutSecretSettings(entry, [...path, name], found)]),
    )
  }
  const masked = isSecret(value, path) ? '(secret)' : withoutPassword(value)
  if (masked !== value) found(path)
  return masked
}

/** Unquoted digits are a number in YAML, so a number may be a secret too. */
function isSecret(value: unknown, path: readonly string[]): boolean {
  if (typeof value !== 'string' && typeof value !== 'number') return false
  const last = path.at(-1) ?? ''
  if (path.includes('api_keys') && last === 'weight') return false
  // `explain` may name the member of a reference.
  if (REFERENCES.has(last) && isReference({ [last]: value }, path.slice(0, -1))) return false
  return path.some((name) => SECRET_SETTINGS.has(name))
}

/** A header or a provider may have the name of a kind of reference. */
function isReference(value: object, path: readonly string[]): boolean {
  const [[name, source] = ['', undefined], ...more] = Object.entries(value)
  const isText = typeof source === 'string' || Array.isArray(source)
  return REFERENCES.has(name) && isText && more.length === 0 && path.at(-1) !== 'headers'
}

const withoutPassword = (value: unknown): unknown =>
  typeof value !== 'string'
    ? value
    : value
        .replace(/(:\/\/[^\s:/?#@]*:)\S*@/, '$1***@')
        .replace(/([?&][^=&\s]*(?:key|password|secret|sig|token)=)[^&\s]+/gi, '$1***')
