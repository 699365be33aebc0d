import type { Incident } from '../../../shared/wire/incidents.ts'
import type { Described } from '../../resources/resolve.ts'

/** `2 EMAIL, 1 PHONE`. */
const toCounts = (types: unknown): string =>
  Object.entries(Object(types))
    .map(([type, count]) => `${count} ${type}`)
    .join(', ')

const IN_LISTS = [
  { path: 'createdAt', title: 'WHEN' },
  { path: 'kind' },
  { path: 'severity' },
  { path: 'direction' },
  { path: 'types', title: 'FOUND', flexible: true, toCell: toCounts },
  { path: 'action' },
  { path: 'enforced' },
  { path: 'id' },
]

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
      { path: 'ruleName', title: 'RULE' },
      { path: 'category' },
      { path: 'riskScore', title: 'SCORE' },
      { path: 'policy' },
      { path: 'model' },
      { path: 'endpoint' },
      { path: 'apiKeyId', title: 'KEY' },
      { path: 'userId', title: 'USER' },
      { path: 'requestId', title: 'REQUEST' },
      { path: 'traceId', title: 'TRACE' },
    ],
  },
}
