export const LOGS_PATH = 'activity-logs'

const who = (user: unknown): unknown => (typeof user === 'object' && user !== null ? Reflect.get(user, 'name') : user)

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
    { path: 'severity' },
    { path: 'complianceCategory', title: 'CATEGORY' },
    { path: 'resourceType', title: 'RESOURCE' },
    { path: 'resourceId', title: 'RESOURCE ID' },
    { path: 'metadata', title: 'DETAILS' },
    { path: 'id' },
  ],
}
