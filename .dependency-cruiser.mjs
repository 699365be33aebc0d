// The module boundaries of the source, checked by `npm run boundaries`. A room (top-level module) imports only from
// lower floors, and other rooms only through the files of their front. `app.ts` opens each room by its `room.ts`.

/** Floors from top to bottom. Rooms of the same floor do not import each other. */
const FLOORS = [
  ['main', 'app'],
  ['maintenance'],
  ['control'],
  ['config'],
  ['gateway'],
  ['knowledge'],
  ['identity', 'safety', 'webhooks'],
  ['metering'],
  ['records'],
  ['models'],
  ['platform'],
]

/** The front of each room: the files that other rooms may import. All files of the platform may be imported. */
const FRONTS = {
  config: ['changes', 'config', 'stored-provider'],
  gateway: ['config', 'cache/answer-cache', 'governed/idempotency'],
  knowledge: ['indexes/index-access', 'ingest/read-text', 'search/ground', 'search/search', 'search/vectors/config'],
  identity: ['groups/store', 'keys/authenticate', 'users/store', 'users/usage-by-model'],
  safety: [
    'config',
    'guards/(documents|guards|passages|redaction|rules-in-force|sensitive-text)',
    'guards/(request/request-screening|stream/(answer-guard|choices-guard|spoken-guard|output-blocked))',
    'incidents/(incident|store)',
    'policies/(enforce|policies)',
    'prompt-shield/resolve',
  ],
  webhooks: ['config', 'purge'],
  metering: [
    'budgets/applied-budgets',
    'config',
    'rate-limits/(purge|rate-limiter)',
    'usage/(billing|counts|input-tokens|money|payment|period|prices)',
  ],
  records: [
    'audit/change',
    'config',
    'events/(events|operator-tenant|outbox)',
    'evidence/(entitlement|request-entry|retention|signing-keys|verification)',
    'ledger/(ledger|records)',
    'logs/provider-messages',
    'usage/reconcile',
  ],
  models: [
    'breaker|config|conversation|cool-down|credentials|model-facts|names|output-limits|part-signature|provider|proxy',
    'custom-tools|registry|targets|well-known-providers',
  ],
}

const fileOf = (name) => `^src/daemon/${name}([.]ts$|/)`
const anyOf = (names) => `^src/daemon/(${names.join('|')})([.]ts$|/)`

const upwards = FLOORS.flatMap((floor, at) => {
  const above = FLOORS.slice(0, at).flat()
  return floor.map((room) => ({
    name: `${room}-imports-downwards-only`,
    severity: 'error',
    from: { path: fileOf(room) },
    to: { path: anyOf([...above, ...floor.filter((other) => other !== room)]) },
  }))
}).filter(({ name }) => name !== 'main-imports-downwards-only' && name !== 'app-imports-downwards-only')

const fronts = Object.entries(FRONTS).map(([room, files]) => ({
  name: `${room}-is-entered-by-its-front`,
  severity: 'error',
  from: { pathNot: [fileOf(room), '^src/daemon/(app|main)[.]ts$'] },
  to: { path: fileOf(room), pathNot: files.map((file) => `^src/daemon/${room}/(${file})[.]ts$`) },
}))

export default {
  forbidden: [
    { name: 'no-cycles', severity: 'error', from: { path: '^src/' }, to: { circular: true } },
    {
      name: 'shared-imports-nothing-of-ours',
      severity: 'error',
      from: { path: '^src/shared/' },
      to: { path: '^src/(daemon|cli)/' },
    },
    { name: 'cli-without-daemon', severity: 'error', from: { path: '^src/cli/' }, to: { path: '^src/daemon/' } },
    { name: 'daemon-without-cli', severity: 'error', from: { path: '^src/daemon/' }, to: { path: '^src/cli/' } },
    {
      name: 'app-opens-rooms',
      severity: 'error',
      from: { path: '^src/daemon/app[.]ts$' },
      to: { path: '^src/daemon/', pathNot: '^src/daemon/(platform/|config/config[.]ts$|[a-z]+/room[.]ts$)' },
    },
    ...upwards,
    ...fronts,
  ],
  options: {
    // The project's TypeScript version has no compiler API that dependency-cruiser could use.
    parser: 'swc',
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
    enhancedResolveOptions: { extensions: ['.ts'] },
  },
}
