// The members of requests that contain secrets of providers.

const SECRET_MEMBERS: ReadonlySet<string> = new Set(['api_key', 'api_keys', 'credentials', 'headers', 'proxy'])

/** Returns a copy of the body of a request for people to read. */
export const withoutSecretMembers = (json: unknown): unknown =>
  JSON.parse(JSON.stringify(json), (name, value) => (SECRET_MEMBERS.has(name) && value !== null ? '***' : value))
