import type { Incident } from '../../../shared/wire/incidents.ts'
import { columns, flexible } from '../../output/formats.ts'
import type { Described } from '../../resources/resolve.ts'

/** `2 EMAIL, 1 PHONE`. */
const toCounts = (types: unknown): string =>
  Object.entries(Object(types))
    .map(([type, count]) => `${count} ${type}`)
    .join(', ')

const IN_LISTS = columns(
  { WHEN: 'createdAt', KIND: 'kind', SEVERITY: 'severity', DIRECTION: 'direction', FOUND: flexible('types', toCounts) },
  { ACTION: 'action', ENFORCED: 'enforced', ID: 'id' },
)

const shared = { idPath: 'id', none: 'No incidents.' }

export const INCIDENTS: Described<Incident> = {
  noun: 'incident',
  command: 'incidents',
  path: '/api/admin/incidents',
  itemsKey: 'incidents',
  itemKey: 'incident',
  isCalled: () => false,
  argument: 'id',
  listView: { ...shared, columns: IN_LISTS },
  view: {
    ...shared,
    columns: [
      ...IN_LISTS,
      ...columns(
        { RULE: 'ruleName', CATEGORY: 'category', SCORE: 'riskScore', POLICY: 'policy', MODEL: 'model' },
        { ENDPOINT: 'endpoint', KEY: 'apiKeyId', USER: 'userId', REQUEST: 'requestId', TRACE: 'traceId' },
      ),
    ],
  },
}
