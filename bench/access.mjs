// Measures admin API latency with 100,000 users and 10,000 groups: one real daemon, real HTTP, sequential calls. Run:
// npm run bench -- access
import { spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import http from 'node:http'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { BenchError, buildProject, root } from './build.mjs'
import { spawnDaemon } from './candidates.mjs'
import { CPU, describeMachine } from './machine.mjs'
import { withSession } from './session.mjs'
import { figure, machineLine, median, table } from './tables.mjs'

const FULL = { users: 100_000, groups: 10_000, members: 10, largeGroups: 20, largeMembers: 5_000, samples: 40 }
const QUICK = { users: 20_000, groups: 2_000, members: 10, largeGroups: 20, largeMembers: 2_000, samples: 15 }
/** How many keys the calls rotate through, because rate limits apply to each key and route. */
const KEYS = 40
const ROWS_PER_INSERT = 2_000
const CREATED = Date.parse('2026-01-01T00:00:00Z')

const FIRST =
  'Ada Grace Alan Edsger Barbara Donald Margaret Linus Radia Ken Frances Dennis Hedy Tim Joan Niklaus'.split(' ')
const LAST =
  'Lovelace Hopper Turing Dijkstra Liskov Knuth Hamilton Perlman Thompson Allen Ritchie Lamarr Clarke Wirth'.split(' ')

const built = (file) => import(pathToFileURL(path.join(root, 'dist', file)).href)
const idOf = (kind, number) => kind + number.toString(16).padStart(23, '0')
const sha256 = (text) => createHash('sha256').update(text).digest('hex')

/** Fills the operator's tenant with users, groups and members, and adds the keys of one administrator. */
async function fill(db, insertRows, toSearchText, plan, keys) {
  const { id: tenant_id } = await db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
  const at = (number) => new Date(CREATED + number * 1000).toISOString()
  const inBatches = async (name, count, row) => {
    for (let from = 0; from < count; from += ROWS_PER_INSERT) {
      const size = Math.min(ROWS_PER_INSERT, count - from)
      await insertRows(
        db,
        name,
        Array.from({ length: size }, (_, offset) => row(from + offset)),
      )
    }
  }
  await inBatches('users', plan.users, (number) => {
    const first = FIRST[number % FIRST.length]
    const last = LAST[(number >> 4) % LAST.length]
    const name = `${first} ${last} ${number}`
    const username = `${first}.${last}.${number}`.toLowerCase()
    const email = `${username}@example.com`
    return {
      id: idOf('a', number),
      tenant_id,
      name,
      email,
      username,
      role: number % 1000 === 0 ? 'admin' : 'user',
      status: number % 50 === 7 ? 0 : 1,
      created_at: at(number),
      updated_at: at(number),
      license: number % 10 === 0 ? 'Growth' : 'Essential',
      auth_type: 'basic',
      is_verified: 1,
      setup_completed: 1,
      search_text: toSearchText(name, email, username),
    }
  })
  await inBatches('groups', plan.groups, (number) => {
    const name = `${LAST[number % LAST.length]} team ${number}`
    const description = `People who work on part ${number}`
    return {
      id: idOf('b', number),
      tenant_id,
      name,
      description,
      status: number % 20 === 0 ? 'Inactive' : 'Active',
      user_count: plan.members,
      search_text: toSearchText(name, description),
      created_at: at(number),
      updated_at: at(number),
    }
  })
  await inBatches('group_members', plan.groups * plan.members, (number) => ({
    tenant_id,
    group_id: idOf('b', Math.floor(number / plan.members)),
    user_id: idOf('a', (number * 7919) % plan.users),
  }))
  await inBatches('groups', plan.largeGroups, (number) => {
    const name = `Everybody ${number}`
    return {
      id: idOf('d', number),
      tenant_id,
      name,
      description: '',
      status: 'Active',
      user_count: plan.largeMembers,
      search_text: toSearchText(name),
      // Gives these groups creation times in the middle of the range, so only a list sorted by size begins with these
      // groups.
      created_at: at(plan.groups / 2),
      updated_at: at(plan.groups / 2),
    }
  })
  await inBatches('group_members', plan.largeGroups * plan.largeMembers, (number) => ({
    tenant_id,
    group_id: idOf('d', Math.floor(number / plan.largeMembers)),
    user_id: idOf('a', number % plan.users),
  }))
  await insertRows(
    db,
    'api_keys',
    keys.map((key, number) => ({
      id: idOf('c', number),
      tenant_id,
      user_id: idOf('a', 1000),
      name: `bench ${number}`,
      secret_hash: sha256(key),
      is_operator: 0,
      created_at: at(number),
      updated_at: at(number),
      expires_at: null,
      revoked_at: null,
      settings: JSON.stringify({
        dailyLimit: null,
        monthlyLimit: null,
        rateLimit: { requestsPerMinute: null, requestsPerHour: null },
      }),
    })),
  )
}

/** The measured calls of the administrator. `number` differs in every call. */
const calls = ({ users, groups }) => {
  const user = (number) => idOf('a', (number * 7919) % users)
  const group = (number) => idOf('b', (number * 7919) % groups)
  const lastPage = (count) => Math.floor(count / 100)
  const list = (what, query) => ({ method: 'GET', path: () => `/api/${what}?${query}`, expect: 200 })
  return {
    'users: first page': list('external/users', 'limit=100'),
    'users: last page': list('external/users', `limit=100&page=${lastPage(users)}`),
    'users: by name': list('external/users', 'limit=100&sortBy=name&sortOrder=asc'),
    'users: administrators only': list('external/users', 'limit=100&role=admin'),
    'users: search one email': {
      method: 'GET',
      path: (number) => `/api/external/users?search=${encodeURIComponent(`.${(number * 7919) % users}@example.com`)}`,
      expect: 200,
    },
    'users: search a common name': list('external/users', 'search=lovelace'),
    'users: search, sorted by name': list('external/users', 'search=lovelace&sortBy=name'),
    'users: search without a match': list('external/users', 'search=nobody-has-this'),
    'users: show one': { method: 'GET', path: (number) => `/api/external/users/${user(number)}`, expect: 200 },
    'users: create': {
      method: 'POST',
      path: () => '/api/external/users',
      body: (number) => ({ name: `New User ${number}`, email: `new.user.${number}@example.com` }),
      expect: 201,
    },
    'users: update': {
      method: 'PUT',
      path: (number) => `/api/external/users/${user(number)}`,
      body: (number) => ({ setupCompleted: number % 2 === 0 }),
      expect: 200,
    },
    'groups: first page': list('external/groups', 'limit=100'),
    'groups: last page': list('external/groups', `limit=100&page=${lastPage(groups)}`),
    'groups: the largest': list('external/groups', 'sortBy=userCount'),
    'groups: by size, smallest first': list('external/groups', 'limit=100&sortBy=userCount&sortOrder=asc'),
    'groups: search': list('external/groups', 'search=turing%20team'),
    'groups: create with 10 users': {
      method: 'POST',
      path: () => '/api/external/groups',
      body: (number) => ({
        name: `New group ${number}`,
        description: 'Created by the bench',
        users: Array.from({ length: 10 }, (_, at) => user(number * 10 + at)),
      }),
      expect: 201,
    },
    'groups: replace members': {
      method: 'PUT',
      path: (number) => `/api/external/groups/${group(number)}`,
      body: (number) => ({ users: Array.from({ length: 10 }, (_, at) => user(number * 11 + at)) }),
      expect: 200,
    },
    'roles: list': list('external/roles', ''),
    'roles: by users': list('external/roles', 'sortBy=userCount'),
    'keys: list': list('admin/api-keys', 'limit=100'),
  }
}

async function timeCall(agent, baseUrl, call, number, key) {
  const body = call.body && JSON.stringify(call.body(number))
  const startedAt = performance.now()
  const request = http.request(new URL(call.path(number), baseUrl), {
    agent,
    method: call.method,
    headers: {
      authorization: `Bearer ${key}`,
      ...(body && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
    },
  })
  request.end(body)
  const [response] = await once(request, 'response')
  const chunks = []
  for await (const chunk of response) chunks.push(chunk)
  const tookMs = performance.now() - startedAt
  if (response.statusCode !== call.expect) {
    throw new BenchError(`${call.method} ${call.path(number)}: ${response.statusCode} ${Buffer.concat(chunks)}`)
  }
  return tookMs
}

async function measureEngine(session, engine, databaseUrl, plan) {
  const dir = path.join(session.dir, engine)
  const { openDatabase } = await built('daemon/platform/db/database.js')
  const { insertRows } = await built('daemon/platform/db/insert-rows.js')
  const { toSearchText } = await built('daemon/platform/db/list-page.js')
  // The daemon's first start creates the schema, the tenant and the operator. The store is filled while the daemon is
  // stopped.
  const first = spawnDaemon(session, { dir, databaseUrl })
  await first.child.listening
  await first.child.stop()
  const keys = Array.from({ length: KEYS }, () => `sk-${randomBytes(32).toString('hex')}`)
  const db = await openDatabase(
    databaseUrl ? { kind: 'postgres', url: databaseUrl } : { kind: 'sqlite', dataDir: path.join(dir, 'data') },
  )
  try {
    await fill(db, insertRows, toSearchText, plan, keys)
    if (databaseUrl) await analyse(db)
  } finally {
    await db.destroy()
  }
  const { child } = spawnDaemon(session, { dir, cpu: CPU.measured, databaseUrl })
  const { url } = await child.listening
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
  const times = {}
  let number = 0
  try {
    for (const round of ['warm-up', 'measured']) {
      for (const [name, call] of Object.entries(calls(plan))) {
        times[name] = []
        for (let sample = 0; sample < (round === 'measured' ? plan.samples : 3); sample++) {
          number += 1
          times[name].push(await timeCall(agent, url, call, number, keys[number % KEYS]))
        }
      }
    }
  } finally {
    agent.destroy()
    await child.stop()
  }
  return times
}

/** Runs VACUUM ANALYZE now, because autovacuum would run it within a minute of this import. */
async function analyse(db) {
  const { CompiledQuery } = await import('kysely')
  for (const name of ['users', 'groups', 'group_members', 'roles', 'api_keys']) {
    await db.executeQuery(CompiledQuery.raw(`vacuum analyze "${name}"`))
  }
}

/** Starts the tests' PostgreSQL, which exits when its standard input closes. */
async function withPostgres(run) {
  const server = spawn(process.execPath, [path.join(root, 'test', 'postgres-process.mjs')], {
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  try {
    const [line] = await Promise.race([
      once(server.stdout, 'data'),
      once(server, 'exit').then(() => Promise.reject(new BenchError('PostgreSQL did not start'))),
    ])
    return await run(`${JSON.parse(line).url}/postgres`)
  } finally {
    const ended = once(server, 'close')
    server.stdin.end()
    await ended
  }
}

/**
 * `npm run bench -- access`: prints the table and returns all figures.
 * @param {{quick: boolean, rounds: number | undefined, dataDir: string | undefined, noBuild: boolean}} options
 */
export async function benchAccess({ quick, rounds, dataDir, noBuild }) {
  const plan = { ...(quick ? QUICK : FULL), ...(rounds && { samples: rounds }) }
  if (!noBuild) buildProject()
  const machine = describeMachine(dataDir)
  const engines = await withSession({ dataDir }, async (session) => ({
    sqlite: await measureEngine(session, 'sqlite', undefined, plan),
    postgres: await withPostgres((url) => measureEngine(session, 'postgres', url, plan)),
  }))
  console.log(`${machineLine(machine)}\n`)
  console.log(`${figure(plan.users)} users, ${figure(plan.groups)} groups, ${plan.samples} calls each, milliseconds\n`)
  const cells = (times) => [figure(median(times), 1), figure(Math.max(...times), 1)]
  console.log(
    table(
      ['call', 'SQLite median', 'slowest', 'PostgreSQL median', 'slowest'],
      Object.keys(engines.sqlite).map((name) => [
        name,
        ...cells(engines.sqlite[name]),
        ...cells(engines.postgres[name]),
      ]),
    ),
  )
  return { machine, plan, engines }
}
