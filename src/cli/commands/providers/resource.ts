import type { Provider } from '../../../shared/wire/providers.ts'
import type { Members } from '../../input/from-file.ts'
import { columns, flexible } from '../../output/formats.ts'
import type { Described } from '../../resources/resolve.ts'

/** The members that the gateway shows. */
const SHOWN: Record<keyof Provider, boolean> = {
  id: false,
  name: true,
  source: false,
  inUse: false,
  problem: false,
  secrets: false,
  kind: true,
  base_url: true,
  api_version: true,
  api: true,
  region: true,
  models: true,
  location: true,
  project: true,
  publisher: true,
  prices: true,
  timeouts: true,
  createdAt: false,
  updatedAt: false,
}

/** A file may also set the secrets, which the gateway never shows. */
export const PROVIDER_MEMBERS: Members = { ...SHOWN, api_key: true, headers: true, proxy: true, credentials: true }

const IN_LISTS = columns(
  { NAME: 'name', KIND: 'kind', SOURCE: 'source', 'IN USE': 'inUse', ADDRESS: flexible('base_url') },
  { SECRETS: 'secrets', UPDATED: 'updatedAt' },
)

const shared = {
  idPath: 'name',
  members: Object.keys(SHOWN),
  none: 'No providers yet. Add one:  aigw providers add NAME --address URL --key-file FILE',
}

/** Providers are found by their name. */
export const PROVIDERS: Described<Provider> = {
  noun: 'provider',
  command: 'providers',
  path: '/api/admin/providers',
  itemsKey: 'providers',
  itemKey: 'provider',
  isCalled: (provider, name) => provider.name === name,
  isWhole: true,
  takesNames: true,
  keepsName: true,
  argument: 'name',
  listView: { ...shared, columns: IN_LISTS },
  view: {
    ...shared,
    columns: [
      ...IN_LISTS,
      ...columns(
        { PROBLEM: 'problem', MODELS: 'models', REGION: 'region', API: 'api', 'API VERSION': 'api_version' },
        { LOCATION: 'location', PROJECT: 'project', PUBLISHER: 'publisher', CREATED: 'createdAt' },
      ),
    ],
  },
}
