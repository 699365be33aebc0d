import { KEY_MEMBERS } from './fields.ts'

export const KEY_ARGUMENT = 'id, or name if only one has it'

const IN_LISTS = [
  { path: 'name', flexible: true },
  { path: 'user.email', title: 'USER' },
  { path: 'status' },
  { path: 'adminAccess', title: 'ADMIN' },
  { path: 'expiresAt', title: 'EXPIRES' },
  { path: 'lastUsedAt', title: 'LAST USED' },
  { path: 'id' },
]

/** An empty list restricts nothing, and null is no limit. */
const orAny = (value: unknown): unknown => (Array.isArray(value) && value.length === 0 ? 'any' : value)
const orNone = (value: unknown): unknown => value ?? 'none'

const RESTRICTIONS = [
  { path: 'dailyLimit', title: 'PER DAY', toCell: orNone },
  { path: 'monthlyLimit', title: 'PER MONTH', toCell: orNone },
  { path: 'rateLimit.requestsPerMinute', title: 'PER MINUTE', toCell: orNone },
  { path: 'rateLimit.requestsPerHour', title: 'PER HOUR', toCell: orNone },
  { path: 'allowedModels', title: 'MODELS', toCell: orAny },
  { path: 'allowedIndexes', title: 'INDEXES', toCell: orAny },
  { path: 'indexAccess', title: 'INDEX ACCESS' },
  { path: 'allowedSMLTPPolicies', title: 'POLICIES', toCell: orAny },
  { path: 'defaultSMLTPPolicy', title: 'DEFAULT POLICY' },
  { path: 'allowedIPs', title: 'ADDRESSES', toCell: orAny },
  { path: 'failoverDefaults.models', title: 'FAILOVER' },
  { path: 'billingMode', title: 'BILLING' },
]

const shared = { idPath: 'id', members: Object.keys(KEY_MEMBERS), none: 'No keys found.' }

export const KEY_LIST_VIEW = { ...shared, columns: IN_LISTS }
/** One key, with all that it may and may not. */
export const KEY_VIEW = { ...shared, columns: [...IN_LISTS, ...RESTRICTIONS] }
