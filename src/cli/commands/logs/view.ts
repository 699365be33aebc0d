import { findAtPath } from '../../output/formats.ts'

export const LOGS_PATH = 'activity-logs'

const who = (user: unknown): unknown => (typeof user === 'object' && user !== null ? Reflect.get(user, 'name') : user)

/** `openai/gpt-4o failed: auth_failed, HTTP 401, provider's id req_1, 80 ms; local/extract served: 3 ms`. */
const toAttempts = (attempts: unknown): unknown =>
  Array.isArray(attempts)
    ? attempts
        .map((attempt) => {
          const at = (member: string) => findAtPath(attempt, member) ?? undefined
          const status = at('providerStatus')
          const id = at('providerRequestId')
          const facts = [
            at('reason'),
            status === undefined ? undefined : `HTTP ${status}`,
            id === undefined ? undefined : `provider's id ${id}`,
            `${at('latencyMs')} ms`,
          ]
          return `${at('model')} ${at('status')}: ${facts.filter((fact) => fact !== undefined).join(', ')}`
        })
        .join('; ')
    : attempts

const IN_LISTS = [
  { path: 'timestamp', title: 'WHEN' },
  { path: 'type' },
  { path: 'outcome' },
  { path: 'user', toCell: who },
  { path: 'description', flexible: true },
  { path: 'metadata.requestId', title: 'REQUEST' },
]

const shared = { idPath: 'id', none: 'Nothing was logged.' }

export const LOG_LIST_VIEW = { ...shared, columns: IN_LISTS }

/** One entry, with all that is known of it. */
export const LOG_VIEW = {
  ...shared,
  columns: [
    ...IN_LISTS,
    { path: 'metadata.attempts', title: 'ATTEMPTS', toCell: toAttempts },
    { path: 'severity' },
    { path: 'complianceCategory', title: 'CATEGORY' },
    { path: 'resourceType', title: 'RESOURCE' },
    { path: 'resourceId', title: 'RESOURCE ID' },
    { path: 'metadata', title: 'DETAILS' },
    { path: 'id' },
  ],
}
