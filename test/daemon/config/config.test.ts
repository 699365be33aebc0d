import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Config, ConfigFaults, loadConfig } from '../../../src/daemon/config/config.ts'
import { DEFAULT_LIMITS } from '../../../src/daemon/gateway/config.ts'
import { accountAt, keyFile } from '../models/providers/vertex/account.ts'

const KEY = `sk-${'0123456789abcdef'.repeat(4)}`
const OTHER_KEY = `sk-${'f'.repeat(64)}`
const FILE = '/etc/aigw/aigw.yaml'

type Sources = { argv?: string[]; env?: Record<string, string>; files?: Record<string, string> }

function load({ argv = [], env = {}, files = {} }: Sources): Config | ConfigFaults {
  return loadConfig({
    argv,
    env: { HOME: '/home/ada', ...env },
    readFile(path) {
      const text = files[path]
      if (text === undefined) throw Object.assign(new Error(`no such file ${path}`), { code: 'ENOENT' })
      return text
    },
  })
}

function good(sources: Sources): Config {
  const config = load(sources)
  if (config instanceof ConfigFaults) throw new Error(config.faults.join('\n'))
  return config
}

function faults(sources: Sources): readonly string[] {
  const config = load(sources)
  if (!(config instanceof ConfigFaults)) throw new Error(`accepted: ${JSON.stringify(config)}`)
  return config.faults
}

const yaml = (text: string, env: Record<string, string> = {}): Sources => ({ env, files: { [FILE]: text } })

describe('defaults', () => {
  test('an empty environment is a valid configuration', () => {
    expect(good({})).toEqual({
      listen: { host: '127.0.0.1', port: 8787 },
      dataDir: '/home/ada/.local/state/aigw',
      database: { kind: 'sqlite' },
      bootstrapKey: undefined,
      webhooks: { allowPrivate: false, allow: [], showPrivateBodies: false },
      providers: [],
      models: [],
      log: { level: 'info', requests: false },
      metrics: { tenantLabel: false },
      drainTimeoutMs: 25_000,
      licenses: { Essential: 0, Growth: 0, Ultra: 0, 'Early Access': 0 },
      discoverLocal: true,
      failover: { sameModelRetries: 1 },
      concurrency: { perTenant: 1000, perKey: 100, waitingPerKey: 200, perProvider: 0 },
      limits: DEFAULT_LIMITS,
      responses: { store: false },
      cache: { enabled: false, ttlMs: 3_600_000, maxBytes: 67_108_864 },
      evidence: { receipts: true, retentionDays: 365, witnesses: [], publishTiles: false },
    })
  })

  test('an empty file and empty sections mean the defaults', () => {
    expect(good(yaml(''))).toEqual(good({}))
    expect(good(yaml('# nothing\n'))).toEqual(good({}))
    expect(good(yaml('log:\ndatabase:\nproviders:\nlicenses:\nfailover:\nconcurrency:\nlimits:\nevidence:\n'))).toEqual(
      good({}),
    )
  })

  test('the data directory is the state directory of systemd, then that of XDG, then one below HOME', () => {
    const env = { STATE_DIRECTORY: '/var/lib/aigw:/var/lib/other', XDG_STATE_HOME: '/state' }
    expect(good({ env }).dataDir).toBe('/var/lib/aigw')
    expect(good({ env: { XDG_STATE_HOME: '/state' } }).dataDir).toBe('/state/aigw')
    expect(good({ env: { XDG_STATE_HOME: 'relative' } }).dataDir).toBe('/home/ada/.local/state/aigw')
    expect(faults({ env: { HOME: '' } })).toEqual([expect.stringContaining('--data-dir')])
  })

  test('the configuration is immutable', () => {
    const config = good(yaml('providers: {house: {base_url: "http://h/v1", models: [a]}}'))
    expect(Object.isFrozen(config)).toBe(true)
    expect(Object.isFrozen(config.listen)).toBe(true)
    expect(Object.isFrozen(config.providers[0]?.models)).toBe(true)
  })
})

describe('sources', () => {
  test('a flag overrides the environment, the environment the file, and the file the default', () => {
    const file = { [FILE]: 'listen: 10.0.0.1:1\ndata_dir: /file\ndatabase: {url: "postgres://file/db"}\n' }
    const env = { AIGW_LISTEN: '10.0.0.2:2', AIGW_DATA_DIR: '/env', AIGW_DATABASE_URL: 'postgres://env/db' }
    expect(good({ files: file })).toMatchObject({
      listen: { port: 1 },
      dataDir: '/file',
      database: { url: 'postgres://file/db' },
    })
    expect(good({ files: file, env })).toMatchObject({
      listen: { port: 2 },
      dataDir: '/env',
      database: { url: 'postgres://env/db' },
    })
    const argv = ['--listen', '10.0.0.3:3', '--data-dir=/flag']
    expect(good({ files: file, env, argv })).toMatchObject({ listen: { host: '10.0.0.3', port: 3 }, dataDir: '/flag' })
  })

  test('the file is named by --config, then AIGW_CONFIG, then the configuration directory of systemd', () => {
    const files = {
      '/a.yaml': 'listen: h:1',
      '/b.yaml': 'listen: h:2',
      '/conf/aigw.yaml': 'listen: h:3',
      [FILE]: 'listen: h:4',
    }
    const env = { AIGW_CONFIG: '/b.yaml', CONFIGURATION_DIRECTORY: '/conf' }
    expect(good({ files, env, argv: ['--config', '/a.yaml'] }).listen.port).toBe(1)
    expect(good({ files, env }).listen.port).toBe(2)
    expect(good({ files, env: { CONFIGURATION_DIRECTORY: '/conf' } }).listen.port).toBe(3)
    expect(good({ files }).listen.port).toBe(4)
  })

  test('a named file must exist', () => {
    expect(faults({ argv: ['--config', '/nowhere.yaml'] })).toEqual([
      '/nowhere.yaml: cannot be read (it does not exist)',
    ])
    expect(faults({ env: { AIGW_CONFIG: '/nowhere.yaml' } })).toHaveLength(1)
  })

  test('relative paths in the file are relative to its directory', () => {
    const files = {
      '/srv/gw/aigw.yaml': 'data_dir: state\nbootstrap_key: {file: secrets/key}',
      '/srv/gw/secrets/key': `${KEY}\n`,
    }
    expect(good({ files, argv: ['--config', '/srv/gw/aigw.yaml'] })).toMatchObject({
      dataDir: '/srv/gw/state',
      bootstrapKey: KEY,
    })
  })

  test('an empty variable counts as unset', () => {
    const env = {
      AIGW_LISTEN: '',
      AIGW_CONFIG: '',
      AIGW_DATA_DIR: '',
      AIGW_DATABASE_URL: '',
      AIGW_BOOTSTRAP_KEY: '',
      OPENAI_API_KEY: '',
    }
    expect(good({ env })).toEqual(good({}))
  })

  test('variables of the command line client and of other programs have no effect', () => {
    expect(good({ env: { AIGW_PROFILE: 'home', AIGW_BASE_URL: 'x', GOOGLE_APPLICATION_CREDENTIALS: 'x' } })).toEqual(
      good({}),
    )
  })

  test('AIGW_MASTER_KEY_FILE names a file with 32 bytes in hex or base64; errors never show other content of it', () => {
    const env = { AIGW_MASTER_KEY_FILE: '/run/secrets/master' }
    const hex = '0af1'.repeat(16)
    const inFile = (text: string) => ({ env, files: { '/run/secrets/master': text } })
    expect(good({}).masterKey).toBeUndefined()
    expect(good(inFile(`${hex}\n`)).masterKey).toBe(hex)
    expect(good(inFile(hex.toUpperCase())).masterKey).toBe(hex)
    expect(good(inFile(Buffer.from(hex, 'hex').toString('base64'))).masterKey).toBe(hex)
    for (const text of ['', 'k', `${hex}00`, hex.slice(1), 'A'.repeat(44), 'x'.repeat(64)]) {
      expect(faults(inFile(text))).toEqual([
        'AIGW_MASTER_KEY_FILE: /run/secrets/master must contain a master key of 64 characters 0-9a-f; create one with: openssl rand -hex 32',
      ])
    }
    expect(faults({ env })).toEqual(['AIGW_MASTER_KEY_FILE: cannot read /run/secrets/master (it does not exist)'])
  })

  test('master_key names a file, a credential, a variable or a command; errors never show the key', () => {
    const hex = '0af1'.repeat(16)
    const files = { '/srv/keys/master': `${hex}\n`, '/run/creds/aigw-master': hex }
    const commands: string[][] = []
    const load = (reference: string, output: () => string = () => `${hex}\n`) =>
      loadConfig({
        argv: ['--config', FILE, '--data-dir', '/d'],
        env: { CREDENTIALS_DIRECTORY: '/run/creds', MASTER: hex },
        readFile: (path) => {
          const text = { ...files, [FILE]: `master_key: ${reference}` }[path]
          if (text === undefined) throw Object.assign(new Error('none'), { code: 'ENOENT' })
          return text
        },
        runCommand: (program, words) => {
          commands.push([program, ...words])
          return output()
        },
      })
    for (const reference of [
      '{file: /srv/keys/master}',
      '{credential: aigw-master}',
      '{env: MASTER}',
      '{command: [pass, show, aigw]}',
    ])
      expect(load(reference)).toMatchObject({ masterKey: hex })
    expect(commands).toEqual([['pass', 'show', 'aigw']])
    const failing = () => {
      throw Object.assign(new Error(hex), { status: 3, stdout: hex })
    }
    for (const [reference, output, message] of [
      ['{command: [pass]}', failing, 'the command pass failed (exit code 3)'],
      ['{command: [pass]}', () => `${hex} x`, 'the output of pass must contain a master key'],
      ['{command: []}', failing, 'must be one of {file: PATH}'],
      [hex, failing, 'must be one of {file: PATH}'],
      ['{file: /none}', failing, 'cannot read /none'],
    ] as const) {
      const { faults: found } = load(reference, output) as ConfigFaults
      expect(found).toEqual([expect.stringContaining(message)])
      expect(found.join()).not.toContain(hex)
    }
  })

  test('WEBHOOKS_ALLOW_PRIVATE is true or false, and false by default', () => {
    expect(good({ env: { WEBHOOKS_ALLOW_PRIVATE: 'true' } }).webhooks).toMatchObject({ allowPrivate: true })
    for (const value of ['false', ''])
      expect(good({ env: { WEBHOOKS_ALLOW_PRIVATE: value } }).webhooks).toMatchObject({ allowPrivate: false })
    for (const value of ['1', 'yes', 'TRUE', ' true'])
      expect(faults({ env: { WEBHOOKS_ALLOW_PRIVATE: value } })).toEqual([
        `WEBHOOKS_ALLOW_PRIVATE: "${value}" is not a valid value; write true or false`,
      ])
  })

  test('webhooks.allow lists blocks, and webhooks.show_private_bodies is a switch', () => {
    const text = 'webhooks:\n  allow: [10.2.0.0/16, "fd00:1::/64"]\n  show_private_bodies: true'
    expect(good(yaml(text)).webhooks).toEqual({
      allowPrivate: false,
      allow: ['10.2.0.0/16', 'fd00:1::/64'],
      showPrivateBodies: true,
    })
    expect(faults(yaml('webhooks: {allow: [10.2.0.0/33], show_private_bodies: 1, alow: []}'))).toEqual([
      expect.stringContaining('webhooks.allow.0: must be an IP address, or a block such as 10.0.0.0/8'),
      expect.stringContaining('webhooks.show_private_bodies: must be true or false'),
      expect.stringContaining('webhooks.alow: unknown key; did you mean "allow"?'),
    ])
  })

  test('AIGW_PARENT_PIPE is a descriptor number', () => {
    expect(good({ env: { AIGW_PARENT_PIPE: '3' } }).parentPipe).toBe(3)
    expect(good({}).parentPipe).toBeUndefined()
    for (const value of ['-1', 'three', '3.5', '/dev/fd/3'])
      expect(faults({ env: { AIGW_PARENT_PIPE: value } })).toEqual([expect.stringMatching(/^AIGW_PARENT_PIPE: /)])
  })

  test('AIGW_BOOTSTRAP_KEY overrides bootstrap_key', () => {
    expect(good(yaml(`bootstrap_key: ${OTHER_KEY}`)).bootstrapKey).toBe(OTHER_KEY)
    expect(good(yaml(`bootstrap_key: ${OTHER_KEY}`, { AIGW_BOOTSTRAP_KEY: KEY })).bootstrapKey).toBe(KEY)
  })
})

describe('flags', () => {
  test('every error of the command line names the option that was probably meant', () => {
    expect(faults({ argv: ['--lisen', 'x', '--data-dir', '--check=yes', 'serve', '-x'] })).toEqual([
      expect.stringMatching(/^--lisen: unknown option; did you mean "--listen"\?/),
      expect.stringMatching(/^--data-dir: needs a value/),
      expect.stringMatching(/^"serve" is not expected/),
      expect.stringMatching(/^-x: unknown option/),
    ])
  })

  test('invalid flags, variables and file entries are reported together', () => {
    const found = faults({
      argv: ['--listen', '8787'],
      env: { AIGW_DATABASE_URL: 'mysql://h/d' },
      files: { [FILE]: 'lgo: 1' },
    })
    expect(found).toHaveLength(3)
    expect(found.join('\n')).toMatch(/--listen: .*127\.0\.0\.1:8787/)
    expect(found.join('\n')).toMatch(/AIGW_DATABASE_URL: is not a PostgreSQL URL/)
    expect(found.join('\n')).toMatch(/aigw\.yaml:1: lgo: unknown key; did you mean "log"\?/)
  })
})

describe('listen', () => {
  test.each([
    ['127.0.0.1:8787', '127.0.0.1', 8787],
    ['0.0.0.0:0', '0.0.0.0', 0],
    ['localhost:65535', 'localhost', 65_535],
    ['gw.example.com:80', 'gw.example.com', 80],
    ['[::1]:8787', '::1', 8787],
    ['[::]:1', '::', 1],
  ])('%s is an address', (text, host, port) => {
    expect(good({ argv: ['--listen', text] }).listen).toEqual({ host, port })
  })

  test.each([
    '8787',
    ':8787',
    '::1:8787',
    '[127.0.0.1]:1',
    '[::g]:1',
    'host',
    'host:',
    'host:65536',
    '1.2.3:1',
    '999.1.1.1:1',
    'a b:1',
    'http://h:1',
    'h:1/',
  ])('%s is rejected with an example', (text) => {
    const [fault, ...more] = faults({ argv: ['--listen', text] })
    expect(more).toEqual([])
    expect(fault).toMatch(/^--listen: .*(write|use) /)
  })

  test('any text is parsed or rejected with a proper error', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        const config = load({ env: { AIGW_LISTEN: text } })
        if (config instanceof ConfigFaults) expect(config.faults).toHaveLength(1)
        else expect(config.listen.port).toBeLessThanOrEqual(65_535)
      }),
    )
  })
})

describe('the file', () => {
  test('every error is one line with file, line, key and remedy', () => {
    const found = faults(
      yaml(
        [
          'lisen: 127.0.0.1:1',
          'listen: 8787',
          'data_dir: ~/state',
          'database:',
          '  url: mysql://user:hunter2@h/d',
          'log: {level: verbose}',
          'drain_timeout: 1h',
          'providers:',
          '  openia:',
          '    api_key: abc',
          '  openai:',
          '    models: []',
          '  mistral: {api_key: {env: NOT_SET}, base_ur: x}',
          '  house: {base_url: "http://user:pw@h", api_key: 12, models: [a, {id: b}, {x: 1}]}',
        ].join('\n'),
      ),
    )
    const at = (line: number, key: string, text: RegExp) =>
      expect.stringMatching(new RegExp(`^${FILE}:${line}: ${key}: [^\n]*${text.source}[^\n]*$`))
    expect(found).toEqual([
      at(1, 'lisen', /unknown key; did you mean "listen"\?/),
      at(2, 'listen', /such as "127.0.0.1:8787"/),
      at(3, 'data_dir', /write the full path/),
      at(5, 'database.url', /write postgres:/),
      at(6, 'log.level', /one of trace, debug, info, warn, error, silent/),
      at(7, 'drain_timeout', /such as 25s/),
      at(9, 'providers.openia.base_url', /did you mean "openai"\?/),
      at(11, 'providers.openai.api_key', /environment variable OPENAI_API_KEY/),
      at(12, 'providers.openai.models', /is empty/),
      at(13, 'providers.mistral.api_key', /NOT_SET is not set/),
      at(13, 'providers.mistral.base_ur', /did you mean "base_url"\?/),
      at(14, 'providers.house.base_url', /use api_key or headers/),
      at(14, 'providers.house.api_key', /must be a text in quotes/),
      at(14, 'providers.house.models.2.id', /must be the name of a model/),
      at(14, 'providers.house.models.2.x', /unknown key; known keys: id, /),
    ])
    expect(found.join()).not.toContain('hunter2')
  })

  test('text that is not YAML is an error with its line number, without the text', () => {
    expect(faults(yaml('listen: [::1]:8787'))).toEqual([
      expect.stringMatching(/^\/etc\/aigw\/aigw\.yaml:1: not valid YAML: .*in quotes$/),
    ])
    expect(faults(yaml('log: {}\nlog: {}'))).toEqual([
      expect.stringMatching(/:2: not valid YAML: Map keys must be unique/),
    ])
    expect(faults(yaml('a: b\n]sk-secret')).join()).not.toContain('sk-secret')
    expect(faults(yaml('- a'))).toEqual([`${FILE}: must be a mapping of keys, such as listen:`])
  })

  test('aliases that expand without limit are rejected', () => {
    const bomb = `a: &a [${'x,'.repeat(10)}]\nb: &b [${'*a,'.repeat(10)}]\nc: &c [${'*b,'.repeat(10)}]\nd: [${'*c,'.repeat(10)}]\n`
    expect(faults(yaml(bomb))).toEqual([`${FILE}: expands too many YAML aliases; write the values out`])
  })

  test('any file is parsed or rejected with proper errors', () => {
    fc.assert(fc.property(fc.string(), (text) => void load(yaml(text))))
    fc.assert(fc.property(fc.jsonValue(), (value) => void load(yaml(JSON.stringify({ providers: value, log: value })))))
  })

  test.each([
    ['0s', 0],
    ['500ms', 500],
    ['25s', 25_000],
    ['10m', 600_000],
  ])('drain_timeout: %s', (text, ms) => {
    expect(good(yaml(`drain_timeout: ${text}`)).drainTimeoutMs).toBe(ms)
  })
})

describe('licences', () => {
  test('a pool has as many licences as the file sets; other tiers are unlimited', () => {
    const { licenses } = good(yaml('licenses: {Essential: 50, Early Access: 1}'))
    expect(licenses).toEqual({ Essential: 50, Growth: 0, Ultra: 0, 'Early Access': 1 })
  })

  test.each([
    ['{Esential: 5}', 'licenses.Esential: unknown key; did you mean "Essential"?'],
    ['{Growth: -1}', 'licenses.Growth: must not be negative'],
    ['{Growth: 1.5}', 'licenses.Growth: must be a whole number of users'],
    ['{Ultra: many}', 'licenses.Ultra: must be a whole number of users'],
    ['50', 'licenses: must map licences to numbers of users'],
  ])('licenses: %s', (text, fault) => {
    expect(faults(yaml(`licenses: ${text}`))).toEqual([expect.stringContaining(fault)])
  })
})

describe('limits of the compatibility surfaces', () => {
  test('are read from the file, with defaults for the rest', () => {
    expect(
      good(yaml('limits: {body_size: 64MB, body_memory: 1GB, json_depth: 64, messages: 500, max_tokens: 16000}'))
        .limits,
    ).toEqual({
      ...DEFAULT_LIMITS,
      bodyBytes: 67_108_864,
      bodyMemoryBytes: 1_073_741_824,
      jsonDepth: 64,
      messages: 500,
      maxTokens: 16_000,
    })
    const times = 'limits: {silence_timeout: 90s, first_token_timeout: 2m, attempt_timeout: 60m}'
    expect(good(yaml(times)).limits).toEqual({
      ...DEFAULT_LIMITS,
      silenceMs: 90_000,
      firstTokenMs: 120_000,
      attemptMs: 3_600_000,
    })
    const sizes = 'limits: {content_size: 1MB, tools: 20, default_max_tokens: 2000, keep_alive: 0s}'
    expect(good(yaml(sizes)).limits).toEqual({
      ...DEFAULT_LIMITS,
      contentBytes: 1_048_576,
      tools: 20,
      defaultMaxTokens: 2_000,
      keepAliveMs: 0,
    })
    expect(good(yaml('limits: {messages: null}')).limits).toEqual(DEFAULT_LIMITS)
    expect(good(yaml('limits: {addresses: false}')).limits).toEqual({ ...DEFAULT_LIMITS, addresses: false })
    expect(good(yaml('limits: {output_tokens: {azure/chat: 16384}}')).limits).toEqual({
      ...DEFAULT_LIMITS,
      outputTokens: { 'azure/chat': 16_384 },
    })
  })

  test.each([
    ['{body_size: 32}', 'limits.body_size: must be a size, such as 32MB'],
    ['{body_size: 32 megabytes}', 'limits.body_size: "32 megabytes" is not a size; write a number and KB, MB or GB'],
    ['{body_size: 1KB}', 'limits.body_size: 1KB is too small; use at least 64KB'],
    ['{body_size: 1GB}', 'limits.body_size: 1GB is too large; use at most 256MB'],
    ['{body_memory: 1MB}', 'limits.body_memory: 1MB is too small; use at least 32MB'],
    ['{json_depth: 5}', 'limits.json_depth: must be at least 8'],
    ['{silence_timeout: 300}', 'limits.silence_timeout: must be a duration, such as 300s'],
    ['{silence_timeout: 500ms}', 'limits.silence_timeout: 500ms is too short; use at least 1s'],
    ['{attempt_timeout: 61m}', 'limits.attempt_timeout: 61m is too long; use at most 60m'],
    ['{content_size: 1}', 'limits.content_size: must be a size, such as 1MB'],
    ['{tools: 0}', 'limits.tools: must be at least 1; use null for no limit'],
    ['{default_max_tokens: 0}', 'limits.default_max_tokens: must be at least 1; use null for no limit'],
    ['{keep_alive: 500ms}', 'limits.keep_alive: 500ms is too short; use at least 1s, or 0s for none'],
    ['{keep_alive: 6m}', 'limits.keep_alive: 6m is too long; use at most 5m'],
    ['{messages: 0}', 'limits.messages: must be at least 1; use null for no limit'],
    ['{output_tokens: {azure/chat: 0}}', 'limits.output_tokens.azure/chat: must be at least 1'],
    [
      '{output_tokens: {chat: 16384}}',
      'limits.output_tokens.chat: must map models to numbers of tokens, such as azure/chat: 16384',
    ],
  ])('%s is an error', (text, fault) => {
    expect(faults(yaml(`limits: ${text}`))).toEqual([expect.stringContaining(fault)])
  })
})

describe('failover and concurrency', () => {
  test('are read from the file, with defaults for the rest', () => {
    const config = good(
      yaml('failover: {same_model_retries: 0}\nconcurrency: {per_tenant: 500, per_key: 0, per_provider: 50}'),
    )
    expect(config.failover).toEqual({ sameModelRetries: 0 })
    expect(config.concurrency).toEqual({ perTenant: 500, perKey: 0, waitingPerKey: 200, perProvider: 50 })
  })

  test.each([
    ['failover: {same_model_retries: 4}', 'failover.same_model_retries: must be at most 3'],
    ['failover: {same_model_retries: -1}', 'failover.same_model_retries: must not be negative'],
    ['failover: {retries: 1}', 'failover.retries: unknown key'],
    ['concurrency: {per_key: 1.5}', 'concurrency.per_key: must be a whole number of requests'],
    ['concurrency: {per_provider: -1}', 'concurrency.per_provider: must not be negative'],
    ['concurrency: 5', 'concurrency: must contain per_tenant, per_key, waiting_per_key or per_provider'],
  ])('%s', (text, fault) => {
    expect(faults(yaml(text))).toEqual([expect.stringContaining(fault)])
  })
})

describe('knowledge', () => {
  test('search uses words only, unless an embedding model or a reranker is configured', () => {
    expect(good({}).knowledge).toBeUndefined()
    expect(good(yaml('knowledge: {embedding: {model: openai/small}}')).knowledge).toEqual({
      embedding: { model: 'openai/small', batch: 64 },
    })
    const embedding = '{model: a/b/c, dimensions: 256, batch: 8, query_timeout_ms: 900}'
    const text = `knowledge: {embedding: ${embedding}, rerank: {model: jina/v2}}`
    expect(good(yaml(text)).knowledge).toEqual({
      embedding: { model: 'a/b/c', dimensions: 256, batch: 8, queryTimeoutMs: 900 },
      rerank: { model: 'jina/v2' },
    })
  })

  test.each([
    ['{embedding: {model: small}}', 'knowledge.embedding.model: must be <provider>/<model>'],
    ['{embedding: {dimensions: 8}}', 'knowledge.embedding.model: must be <provider>/<model>'],
    ['{embedding: {model: a/b, dimensions: 0}}', 'knowledge.embedding.dimensions: must be at least 1'],
    ['{embedding: {model: a/b, dimensions: 100000}}', 'knowledge.embedding.dimensions: must be at most 8192'],
    ['{embedding: {model: a/b, batch: 1.5}}', 'knowledge.embedding.batch: must be a whole number'],
    ['{embedding: {model: a/b, query_timeout_ms: 0}}', 'knowledge.embedding.query_timeout_ms: must be at least 1'],
    ['{rerank: a/b}', 'knowledge.rerank: must contain model: <provider>/<model>'],
    ['{reranker: {model: a/b}}', 'knowledge.reranker: unknown key; did you mean "rerank"?'],
  ])('%s', (text, fault) => {
    expect(faults(yaml(`knowledge: ${text}`))).toEqual([expect.stringContaining(fault)])
  })
})

/** The key of the witness in test/fixtures/c2sp/go.json. */
const WITNESS = 'witness.example.com/w1+4bdc7eaa+BP0XJDhaoMdbZPt4zWAvodmR/ev3axPFjtcC6sg16fYY'

describe('evidence', () => {
  test('may set a name, a retention time and further destinations of checkpoints', () => {
    const text = `evidence:
  name: gateway.example.com
  receipts: false
  retention_days: 0
  checkpoint_file: checkpoints
  checkpoint_url: https://log.example.com/aigw
  publish_tiles: true
  witnesses:
    - name: w1
      url: https://witness.example.com/
      key: ${WITNESS}
      valid_until: 2027-01-01T00:00:00Z
`
    expect(good(yaml(text)).evidence).toEqual({
      name: 'gateway.example.com',
      receipts: false,
      retentionDays: 0,
      checkpointFile: join(dirname(FILE), 'checkpoints'),
      checkpointUrl: 'https://log.example.com/aigw',
      publishTiles: true,
      witnesses: [
        {
          name: 'w1',
          url: 'https://witness.example.com/',
          key: WITNESS,
          window: { fromMs: Number.NEGATIVE_INFINITY, untilMs: Date.UTC(2027, 0, 1) },
        },
      ],
    })
  })

  test.each([
    ['{name: "a b"}', 'evidence.name: must be letters, digits, dots, slashes and hyphens'],
    ['{name: "a+b"}', 'evidence.name: must be letters'],
    ['{receipts: maybe}', 'evidence.receipts: must be true or false'],
    ['{retention_days: -1}', 'evidence.retention_days: must not be negative'],
    ['{retention_days: 1.5}', 'evidence.retention_days: must be a whole number'],
    ['{checkpoint_file: ""}', 'evidence.checkpoint_file: is empty'],
    ['{checkpoint_url: "ftp://a/b"}', 'evidence.checkpoint_url: must be a URL'],
    ['{publish_tiles: 1}', 'evidence.publish_tiles: must be true or false'],
    ['{witnesses: w1}', 'evidence.witnesses: must be a list of witnesses'],
    [
      '{witnesses: [{name: w1, url: "https://w", key: "w+1+2"}]}',
      'evidence.witnesses.0.key: must be <name>+<hash>+<key>',
    ],
    [`{witnesses: [{name: w1, url: "file:///w", key: ${WITNESS}}]}`, 'evidence.witnesses.0.url: must be a URL'],
    [
      `{witnesses: [{name: w1, url: "https://w", key: ${WITNESS}, until: 1}]}`,
      'evidence.witnesses.0.until: unknown key',
    ],
    [
      `{witnesses: [{name: w1, url: "https://w", key: ${WITNESS}}, {name: w2, url: "https://v", key: ${WITNESS}}]}`,
      'evidence.witnesses: has two witnesses with the same key',
    ],
    ['{receipt: true}', 'evidence.receipt: unknown key; did you mean "receipts"?'],
  ])('%s', (text, fault) => {
    expect(faults(yaml(`evidence: ${text}`))).toEqual([expect.stringContaining(fault)])
  })
})

describe('metrics and telemetry', () => {
  test('the file may ask for a line per request, a label with the tenant, and a collector', () => {
    const text = `log: {requests: true}
metrics: {tenant_label: true}
telemetry:
  endpoint: http://127.0.0.1:4318
  headers: {Authorization: {env: COLLECTOR_KEY}}
  sample_ratio: 0.25
`
    const { log, metrics, telemetry } = good({ ...yaml(text), env: { HOME: '/home/ada', COLLECTOR_KEY: 'Bearer c' } })
    expect([log, metrics]).toEqual([{ level: 'info', requests: true }, { tenantLabel: true }])
    expect(telemetry).toEqual({
      endpoint: 'http://127.0.0.1:4318',
      headers: { Authorization: 'Bearer c' },
      sampleRatio: 0.25,
    })
  })

  test('the variable of OpenTelemetry overrides the endpoint of the file', () => {
    const file = yaml('telemetry: {endpoint: "http://other:4318", sample_ratio: 0.5}')
    const env = { HOME: '/home/ada', OTEL_EXPORTER_OTLP_ENDPOINT: 'https://collector.example.com' }
    expect(good({ ...file, env }).telemetry).toMatchObject({
      endpoint: env.OTEL_EXPORTER_OTLP_ENDPOINT,
      sampleRatio: 0.5,
    })
    expect(good(yaml('telemetry: {sample_ratio: 0.5}')).telemetry).toBeUndefined()
  })

  test.each([
    ['log: {requests: 1}', 'log.requests: must be true or false'],
    ['metrics: {tenant_label: yes please}', 'metrics.tenant_label: must be true or false'],
    ['telemetry: {endpoint: "collector:4318"}', 'telemetry.endpoint: is not an http or https URL'],
    ['telemetry: {endpoint: "http://user:pw@collector"}', 'telemetry.endpoint: must contain no credentials'],
    ['telemetry: {endpoint: "http://a", headers: {"a b": {env: HOME}}}', 'telemetry.headers: '],
    ['telemetry: {sample_ratio: 2}', 'telemetry.sample_ratio: must be a number from 0 to 1'],
    ['telemetry: {endpont: "http://a"}', 'telemetry.endpont: unknown key; did you mean "endpoint"?'],
  ])('%s', (text, fault) => {
    expect(faults(yaml(text))).toEqual([expect.stringContaining(fault)])
  })
})

describe('trusted proxies', () => {
  test('are the addresses and CIDR blocks of the file', () => {
    expect(good(yaml('trusted_proxies: [127.0.0.1, 10.0.0.0/8, "fd00::/8"]')).trustedProxies).toEqual([
      '127.0.0.1',
      '10.0.0.0/8',
      'fd00::/8',
    ])
    expect(good(yaml('trusted_proxies:')).trustedProxies).toBeUndefined()
  })

  test.each([
    ['10.0.0.0/8', 'trusted_proxies: must be a list of IP addresses or blocks'],
    ['[10.0.0.0/33]', 'trusted_proxies.0: must be an IP address, or a block'],
    ['[127.0.0.1, localhost]', 'trusted_proxies.1: must be an IP address, or a block'],
    ['[10]', 'trusted_proxies.0: must be an IP address or a block in quotes'],
  ])('trusted_proxies: %s', (text, fault) => {
    expect(faults(yaml(`trusted_proxies: ${text}`))).toEqual([expect.stringContaining(fault)])
  })
})

describe('secrets', () => {
  const files = { [FILE]: '', '/run/secrets/key': 'from-file\n', '/creds/key': 'from-credential\r\n' }
  const env = { FROM_ENV: 'from-env', CREDENTIALS_DIRECTORY: '/creds' }
  const withKey = (reference: string) => ({
    env,
    files: { ...files, [FILE]: `providers: {openai: {api_key: ${reference}}}` },
  })

  test.each([
    ['from-file', '{file: /run/secrets/key}'],
    ['from-env', '{env: FROM_ENV}'],
    ['from-credential', '{credential: key}'],
    ['literal', 'literal'],
  ])('%s', (secret, reference) => {
    expect(good(withKey(reference)).providers[0]?.apiKey).toBe(secret)
  })

  test.each([
    ['{env: NOPE}', 'environment variable NOPE is not set'],
    ['{file: /run/secrets/other}', 'cannot read /run/secrets/other (it does not exist)'],
    ['{credential: other}', 'cannot read /creds/other (it does not exist)'],
    ['{credential: ../shadow}', 'is a path'],
    ['{credential: ..}', 'is a path'],
    ['{env: A, file: B}', 'one of {env: NAME}'],
    ['{evn: A}', 'one of {env: NAME}'],
    ['{env: sk-secret-1}', 'one of {env: NAME}'],
    ['{file: ""}', 'one of {env: NAME}'],
    ['""', 'is empty'],
    ['"two words"', 'contains a space'],
  ])('%s is refused: %s', (reference, reason) => {
    const found = faults(withKey(reference))
    expect(found).toEqual([expect.stringContaining(reason)])
    expect(found.join()).not.toContain('sk-secret')
  })

  test('a credential needs the credentials directory of systemd', () => {
    expect(faults(yaml('bootstrap_key: {credential: key}'))).toEqual([expect.stringContaining('LoadCredential=key:')])
  })

  test('a bootstrap key must be sk- and 64 hex characters, and errors do not repeat an invalid one', () => {
    const wrong = `sk-${'G'.repeat(64)}`
    for (const found of [faults({ env: { AIGW_BOOTSTRAP_KEY: wrong } }), faults(yaml(`bootstrap_key: ${wrong}`))]) {
      expect(found).toEqual([expect.stringContaining('64 characters')])
      expect(found.join()).not.toContain(wrong)
    }
  })
})

describe('providers', () => {
  test('a well-known name needs only a key', () => {
    expect(good(yaml('providers: {groq: {api_key: k}}')).providers).toEqual([
      {
        name: 'groq',
        kind: 'openai',
        baseUrl: 'https://api.groq.com/openai/v1',
        apiKey: 'k',
        headers: {},
        models: undefined,
      },
    ])
  })

  test('a well-known provider is enabled when its usual variable is set', () => {
    const env = { OPENAI_API_KEY: 'k1', MISTRAL_API_KEY: 'k2' }
    expect(good({ env }).providers.map(({ name, apiKey }) => [name, apiKey])).toEqual([
      ['openai', 'k1'],
      ['mistral', 'k2'],
    ])
  })

  test('an entry in the file uses its own key first, then the usual variable', () => {
    const env = { OPENAI_API_KEY: 'from-env' }
    expect(good(yaml('providers: {openai: {models: [gpt-4o]}}', env)).providers).toMatchObject([
      { name: 'openai', apiKey: 'from-env', models: ['gpt-4o'] },
    ])
    expect(good(yaml('providers: {openai: {api_key: own}}', env)).providers).toMatchObject([{ apiKey: 'own' }])
  })

  test('a key for another address is not sent to the well-known one', () => {
    const env = { OPENAI_API_KEY: 'k', OPENAI_BASE_URL: 'https://proxy.example/v1/' }
    expect(good({ env }).providers).toMatchObject([{ name: 'openai', baseUrl: 'https://proxy.example/v1' }])
    expect(faults({ env: { ...env, OPENAI_BASE_URL: 'proxy' } })).toEqual([
      expect.stringContaining('OPENAI_BASE_URL is not an http or https URL'),
    ])
  })

  test('an invalid key in a usual variable is an error that names the variable without the key', () => {
    const found = faults({ env: { OPENAI_API_KEY: 'sk-two words' } })
    expect(found).toEqual([expect.stringContaining('environment variable OPENAI_API_KEY contains a space')])
    expect(found.join()).not.toContain('two words')
  })

  test('ollama and vllm need no key, and neither does a custom address', () => {
    const { providers } = good(
      yaml(
        'providers: {ollama: , vllm: {}, openai: {base_url: "http://127.0.0.1:9/v1/"}, house: {base_url: "http://h:1/v1"}}',
      ),
    )
    expect(providers.map(({ name, baseUrl, apiKey }) => [name, baseUrl, apiKey])).toEqual([
      ['ollama', 'http://127.0.0.1:11434/v1', undefined],
      ['vllm', 'http://127.0.0.1:8000/v1', undefined],
      ['openai', 'http://127.0.0.1:9/v1', undefined],
      ['house', 'http://h:1/v1', undefined],
    ])
  })

  test('models are names or {id}, and headers may be secrets', () => {
    const text = 'providers: {house: {base_url: "http://h/v1", models: [a, {id: b}], headers: {X-Token: {env: TOKEN}}}}'
    expect(good(yaml(text, { TOKEN: 't' })).providers).toMatchObject([
      { models: ['a', 'b'], headers: { 'X-Token': 't' } },
    ])
  })

  test('Anthropic and Google use their own interfaces and need only a key, by name or by kind', () => {
    const text = 'providers: {anthropic: {api_key: a}, google: {api_key: b}, claude: {kind: anthropic, api_key: c}}'
    expect(good(yaml(text)).providers).toMatchObject([
      { name: 'anthropic', kind: 'anthropic', baseUrl: 'https://api.anthropic.com', apiKey: 'a' },
      { name: 'google', kind: 'google', baseUrl: 'https://generativelanguage.googleapis.com', apiKey: 'b' },
      { name: 'claude', kind: 'anthropic', baseUrl: 'https://api.anthropic.com', apiKey: 'c' },
    ])
    const env = { ANTHROPIC_API_KEY: 'a', GEMINI_API_KEY: 'b', ANTHROPIC_BASE_URL: 'https://proxy.example/' }
    expect(good({ env }).providers).toMatchObject([
      { name: 'anthropic', kind: 'anthropic', baseUrl: 'https://proxy.example', apiKey: 'a' },
      { name: 'google', kind: 'google', apiKey: 'b' },
    ])
    expect(good({ env: { GEMINI_API_KEY: 'b', GOOGLE_API_KEY: 'c' } }).providers).toMatchObject([{ apiKey: 'c' }])
  })

  test('the usual key of a kind is not sent to a custom address under another name', () => {
    const text = 'providers: {house: {kind: anthropic, base_url: "http://h"}, claude: {kind: anthropic}}'
    expect(good(yaml(text, { ANTHROPIC_API_KEY: 'k' })).providers).toMatchObject([
      { name: 'house', apiKey: undefined },
      { name: 'claude', apiKey: 'k' },
      { name: 'anthropic', apiKey: 'k' },
    ])
  })

  test('Azure needs the address of its resource and accepts a version', () => {
    const address = 'base_url: "https://r.openai.azure.com"'
    const text = `providers: {azure: {${address}, api_key: k}, west: {kind: azure, ${address}, api_version: "2024-10-21"}}`
    expect(good(yaml(text)).providers).toEqual([
      {
        name: 'azure',
        kind: 'azure',
        baseUrl: 'https://r.openai.azure.com',
        apiKey: 'k',
        headers: {},
        models: undefined,
      },
      expect.objectContaining({ name: 'west', kind: 'azure', apiVersion: '2024-10-21' }),
    ])
    const env = { AZURE_OPENAI_API_KEY: 'k', AZURE_OPENAI_ENDPOINT: 'https://r.openai.azure.com/' }
    expect(good({ env: { ...env, OPENAI_API_VERSION: '2025-04-01-preview' } }).providers).toMatchObject([
      { name: 'azure', kind: 'azure', baseUrl: 'https://r.openai.azure.com', apiVersion: '2025-04-01-preview' },
    ])
    expect(good({ env: { AZURE_OPENAI_API_KEY: 'k' } }).providers).toEqual([])
    expect(faults({ env: { ...env, OPENAI_API_VERSION: 'soon' } })).toEqual([
      expect.stringContaining('OPENAI_API_VERSION "soon" is not a version'),
    ])
    const wrong = `{azure: {api_key: k}, west: {kind: azure, ${address}, api_version: soon}, groq: {api_key: k, api_version: "2024-10-21"}}`
    expect(faults(yaml(`providers: ${wrong}`))).toEqual([
      expect.stringMatching(/providers\.azure\.base_url: is missing; set the URL of your resource/),
      expect.stringMatching(/providers\.west\.api_version: "soon" is not a version of the Azure API/),
      expect.stringMatching(/providers\.groq\.api_version: applies only to kind: azure; remove it/),
    ])
  })

  test('answers of the Responses API are stored only if the file says so', () => {
    expect(good(yaml('responses: {store: true}')).responses).toEqual({ store: true })
    expect(faults(yaml('responses: {store: yes-please}'))).toEqual([
      expect.stringMatching(/responses\.store: must be true or false/),
    ])
  })

  test('the answer cache has a lifetime and a size for each tenant', () => {
    const cache = { enabled: true, ttlMs: 300_000, maxBytes: 134_217_728 }
    expect(good(yaml('cache: {enabled: true, ttl: 5m, max_bytes: 128MB}')).cache).toEqual(cache)
    expect(faults(yaml('cache: {enabled: maybe, ttl: 1ms, max_bytes: 1KB, size: 1}'))).toEqual([
      expect.stringMatching(/cache\.enabled: must be true or false/),
      expect.stringMatching(/cache\.ttl: 1ms is too short; use at least 1s/),
      expect.stringMatching(/cache\.max_bytes: 1KB is too small; use at least 1MB/),
      expect.stringMatching(/cache\.size: unknown key/),
    ])
  })

  test("a provider of OpenAI's or Azure's kind may be called through its Responses API", () => {
    const text = 'providers: {openai: {api_key: k, api: responses}, groq: {api_key: k, api: chat}}'
    expect(good(yaml(text)).providers).toMatchObject([
      { name: 'openai', api: 'responses' },
      { name: 'groq', api: 'chat' },
    ])
    expect(
      faults(yaml('providers: {anthropic: {api_key: k, api: responses}, openai: {api_key: k, api: old}}')),
    ).toEqual([
      expect.stringMatching(/providers\.anthropic\.api: applies only to kind: openai and kind: azure; remove it/),
      expect.stringMatching(/providers\.openai\.api: must be "chat" or "responses"/),
    ])
  })

  test('a provider may set its region, which policies refer to', () => {
    const provider = (region: string) => yaml(`providers: {mistral: {api_key: k, region: ${region}}}`)
    expect(good(provider('eu-west-1')).providers).toMatchObject([{ name: 'mistral', region: 'eu-west-1' }])
    expect(good(yaml('providers: {mistral: {api_key: k}}')).providers[0]).not.toHaveProperty('region')
    for (const region of ['EU', '"eu west"', '7']) {
      expect(faults(provider(region))).toEqual([
        expect.stringMatching(/providers\.mistral\.region: must be the name of a region/),
      ])
    }
  })

  test('an unknown kind is an error that suggests the probable one', () => {
    expect(faults(yaml('providers: {b: {kind: opnai, base_url: "http://h"}}'))).toEqual([
      expect.stringMatching(/providers\.b\.kind: "opnai" is not a kind of provider; did you mean "openai"\?/),
    ])
  })

  test('local servers are detected unless the file disables it', () => {
    expect(good(yaml('discover_local: false')).discoverLocal).toBe(false)
    expect(faults(yaml('discover_local: maybe'))).toEqual([expect.stringContaining('must be true or false')])
  })

  test('prices are set per provider, by the names of its models', () => {
    const prices =
      '{m: {input: 0.5, output: 2, cache_read: 0.1, cache_write: 1, cache_write_1h: 2, points: 3, tiers: {flex: {input: 0.25, output: 1, cache_read: 0}}, web_search: 10, audio: {input: 8, output: 9}}, "*": {input: 1, output: 1}}'
    const text = `providers: {a: {base_url: "http://h", prices: ${prices}}, bedrock: {region: eu-central-1, api_key: k, prices: ${prices}}}`
    const read = {
      m: {
        ...{ input: 0.5, output: 2, cacheRead: 0.1, cacheWrite: 1, cacheWriteHour: 2, points: 3 },
        ...{ tiers: { flex: { input: 0.25, output: 1, cacheRead: 0 } }, webSearch: 10, audio: [8, 9] },
      },
      '*': { input: 1, output: 1 },
    }
    expect(good(yaml(text)).providers).toMatchObject([{ prices: read }, { prices: read }])
  })

  test('errors in prices name the model and the amount', () => {
    const prices = '{m: {input: -1, output: 2000, points: 1.5, cache: 1}, n: 3}'
    expect(faults(yaml(`providers: {a: {base_url: "http://h", prices: ${prices}}}`))).toEqual([
      expect.stringMatching(/providers\.a\.prices\.m\.input: must not be negative$/),
      expect.stringMatching(/providers\.a\.prices\.m\.output: must be at most 1000 dollars per million tokens$/),
      expect.stringMatching(/providers\.a\.prices\.m\.points: must be a whole number of points, or 0 for none$/),
      expect.stringMatching(/providers\.a\.prices\.m\.cache: unknown key; known keys: input, output/),
      expect.stringMatching(/providers\.a\.prices\.n: must contain dollars per million tokens/),
    ])
    const ofModel = 'providers: {b: {base_url: "http://h", models: [{id: m, prices: 1}]}}'
    expect(faults(yaml(ofModel))).toEqual([
      expect.stringMatching(
        /providers\.b\.models\.0\.prices: unknown key; known keys: id, context_tokens, input, output$/,
      ),
    ])
  })

  test('points are monthly per licence; null means no limit', () => {
    expect(good(yaml('points: {Essential: 29000, Ultra: null}')).points).toEqual({ Essential: 29_000, Ultra: null })
    expect(good(yaml('log: {}')).points).toBeUndefined()
    expect(faults(yaml('points: {Essential: -1, Basic: 5}'))).toEqual([
      expect.stringMatching(/points\.Essential: must not be negative$/),
      expect.stringMatching(/points\.Basic: unknown key/),
    ])
  })

  test('the proxies of the environment are read as other programs do', () => {
    const url = 'http://proxy.corp:3128/'
    expect(good({ env: { HTTPS_PROXY: 'proxy.corp:3128', NO_PROXY: '.corp, 10.0.0.0/8' } }).proxies).toEqual({
      http: undefined,
      https: url,
      except: ['.corp', '10.0.0.0/8'],
    })
    expect(good({ env: { http_proxy: url, HTTP_PROXY: 'http://other:1', HTTPS_PROXY: '' } }).proxies).toEqual({
      http: url,
      except: [],
    })
    expect(good({ env: { HTTPS_PROXY: 'none', NO_PROXY: '*' } }).proxies).toBeUndefined()
  })

  test('a provider may have its own proxy, or none', () => {
    const entry = (proxy: string) =>
      good(yaml(`providers:\n  house: {base_url: https://house.example/v1, proxy: ${proxy}}\n`, { PROXY: 'a.corp:80' }))
        .providers[0]
    expect(entry('"http://us:p%40ss@proxy.corp:3128"')).toMatchObject({ proxy: 'http://us:p%40ss@proxy.corp:3128/' })
    expect(entry('"https://proxy.corp"')).toMatchObject({ proxy: 'https://proxy.corp/' })
    expect(entry('{env: PROXY}')).toMatchObject({ proxy: 'http://a.corp/' })
    expect(entry('none')).toMatchObject({ proxy: null })
    expect(entry('null')).toMatchObject({ proxy: null })
  })

  test.each([
    ['socks5://us:hunter2@proxy.corp', 'is not the http or https URL of a proxy; write http://HOST:PORT, or none'],
    ['http://us:hunter2@proxy.corp/path', 'contains a path, query or fragment; write http://HOST:PORT, or none'],
    ['http://us:%hunter2@proxy.corp', 'contains an invalid user or password; percent-encode special characters'],
    ['http://', 'is not the http or https URL of a proxy; write http://HOST:PORT, or none'],
  ])('the invalid proxy %s is an error that does not repeat it', (proxy, fault) => {
    expect(faults({ env: { HTTPS_PROXY: proxy } })).toEqual([`HTTPS_PROXY: ${fault}`])
    expect(faults(yaml(`providers:\n  house: {base_url: https://house.example, proxy: "${proxy}"}\n`))).toEqual([
      `${FILE}:2: providers.house.proxy: ${fault}`,
    ])
  })

  test('ca names a file with certificates, which is read when the configuration is', () => {
    const pem = readFileSync(join(import.meta.dirname, '../../fixtures/tls/self-signed.crt'), 'utf8')
    const key = readFileSync(join(import.meta.dirname, '../../fixtures/tls/self-signed.key'), 'utf8')
    const withCa = (ca: string, content?: string, url = 'https://house.example') => ({
      files: {
        [FILE]: `providers:\n  house: {base_url: "${url}", ca: ${ca}}\n`,
        ...(content !== undefined && { '/etc/aigw/house.pem': content }),
      },
    })
    const [house] = good(withCa('house.pem', `${key}\n${pem}\n${pem}`)).providers
    expect(house).toMatchObject({ ca: `${pem.trim()}\n${pem.trim()}` })
    const faultOf = (...given: Parameters<typeof withCa>) => faults(withCa(...given)).join()
    const at = `${FILE}:2: providers.house.ca: `
    expect(faultOf('house.pem')).toBe(`${at}cannot read /etc/aigw/house.pem (it does not exist)`)
    expect(faultOf('house.pem', key)).toBe(
      `${at}/etc/aigw/house.pem contains no certificate; use a PEM file with -----BEGIN CERTIFICATE-----`,
    )
    expect(faultOf('house.pem', `${pem}${pem.replace(/[a-z]/g, 'x')}`)).toBe(
      `${at}certificate 2 of 2 in /etc/aigw/house.pem is damaged; export the file again`,
    )
    expect(faultOf('house.pem', pem, 'http://house.example')).toBe(
      `${at}applies only to https, but base_url is an http URL; remove it`,
    )
    expect(faultOf('7', pem)).toBe(`${at}must be the path of a PEM file`)
  })

  test('a well-known name may be used for an OpenAI-compatible address', () => {
    const text = 'providers: {anthropic: {kind: openai, base_url: "https://api.anthropic.com/v1", api_key: k}}'
    expect(good(yaml(text)).providers).toMatchObject([{ name: 'anthropic', kind: 'openai' }])
  })

  test('under another kind a well-known name needs an address, and is not suggested as its own correction', () => {
    expect(faults(yaml('providers: {bedrock: {kind: openai}, bedrok: {}}'))).toEqual([
      expect.stringMatching(/providers\.bedrock\.base_url: is missing; .* "bedrock" is not a well-known provider$/),
      expect.stringMatching(/providers\.bedrok\.base_url: is missing; .* did you mean "bedrock"\?$/),
    ])
  })

  test('local is always enabled: naming it changes nothing, and it accepts only scripts', () => {
    expect(good(yaml('providers: {local: {kind: local}}'))).toEqual(good({}))
    expect(faults(yaml('providers: {local: {kind: openai, api_key: k}}'))).toHaveLength(2)
    expect(faults(yaml('providers: {other: {kind: local, base_url: "http://h"}}'))).toHaveLength(1)
  })

  test('scripts of local are read, with times in milliseconds', () => {
    const text = 'providers: {local: {scripts: {slow: [{wait: 2s}, {text: Hi}, {fail: rate_limit, retry_after: 7}]}}}'
    expect(good(yaml(text)).scripts).toEqual({
      slow: [{ wait: 2000 }, { text: 'Hi' }, { fail: 'rate_limit', retry_after: 7 }],
    })
  })

  test.each([
    ['{slow: [{wait: soon}]}', 'scripts.slow.0'],
    ['{slow: [{sing: loudly}]}', 'scripts.slow.0: must be one step'],
    ['{slow: [{text: a, finish: stop}]}', 'scripts.slow.0: must be one step'],
    ['{slow: []}', 'scripts.slow: is empty'],
    ['{slow: fast}', 'scripts.slow: must be a list of steps'],
    ['{"a/b": [{finish: stop}]}', 'scripts.a/b: must be a name'],
    ['fast', 'scripts: must map script names'],
  ])('scripts: %s is a fault of its own', (scripts, fault) => {
    expect(faults(yaml(`providers: {local: {scripts: ${scripts}}}`))).toEqual([expect.stringContaining(fault)])
  })

  test.each(['Open', 'a/b', '""', '"a b"'])('%s cannot be the name of a provider', (name) => {
    expect(faults(yaml(`providers: {${name}: {base_url: "http://h"}}`))).toEqual([
      expect.stringContaining('must be a name of'),
    ])
  })

  test.each(['Host', 'Content-Length', 'Expect', 'Keep-Alive', '"a b"'])('header %s is rejected', (name) => {
    expect(faults(yaml(`providers: {house: {base_url: "http://h", headers: {${name}: x}}}`))).toHaveLength(1)
  })

  test.each(['ftp://h/v1', 'h/v1', 'http://h/v1?x=1', 'http://h/v1#x'])('base_url %s is rejected', (url) => {
    expect(faults(yaml(`providers: {house: {base_url: "${url}"}}`))).toEqual([expect.stringContaining('base_url')])
  })
})

describe('names', () => {
  const PROVIDERS = 'providers: {a: {base_url: "http://a/v1", models: [x, y]}, b: {base_url: "http://b/v1"}}\n'

  test('stand for one model, or for targets with weights and priorities', () => {
    const text = `models: {one: a/x, two: {model: a/x, weight: 2}, several: [a/x, {model: b/any, weight: 70, priority: 2}]}\n`
    expect(good(yaml(`${PROVIDERS}${text}default_model: one`))).toMatchObject({
      models: [
        { name: 'one', targets: [{ modelId: 'a/x', weight: 1, priority: 1 }] },
        { name: 'two', targets: [{ modelId: 'a/x', weight: 2, priority: 1 }] },
        {
          name: 'several',
          targets: [
            { modelId: 'a/x', weight: 1, priority: 1 },
            { modelId: 'b/any', weight: 70, priority: 2 },
          ],
        },
      ],
      defaultModel: 'one',
    })
    expect(good(yaml('models: {house: [local/extract, ollama/any]}')).models).toHaveLength(1)
    expect(good(yaml('default_model: local/extract')).defaultModel).toBe('local/extract')
    expect(good({ env: { OPENAI_API_KEY: 'k' }, files: { [FILE]: 'models: {n: openai/any}' } }).models).toHaveLength(1)
  })

  test.each([
    ['models: {n: x}', ':2: models.n: must be <provider>/<model>, or {model:'],
    ['models: {n: }', 'models.n: must be <provider>/<model>'],
    ['models: {n: []}', 'models.n: is empty'],
    ['models: {n: [a/x, a/x]}', 'models.n: lists "a/x" twice'],
    ['models: {n: [a/x, {model: b/x, weight: 0}]}', 'models.n.1.weight: must be above 0'],
    ['models: {n: [{model: b/x, priority: 0}]}', 'models.n.0.priority: must be at least 1'],
    ['models: {n: [{model: b/x, wieght: 1}]}', 'models.n.0.wieght: unknown key; did you mean "weight"?'],
    ['models: {a/n: a/x}', 'models.a/n: must be a name without slashes'],
    ['models: [a/x]', 'models: must map names to models'],
    ['models: {n: c/x}', 'models.n: c/x: no provider "c" is configured'],
    ['models: {n: a/z}', 'models.n: a/z: providers.a.models does not list "z"'],
    ['default_model: n', 'default_model: n: is neither <provider>/<model> nor a name under models'],
    ['default_model: a/z', 'default_model: a/z: providers.a.models does not list "z"'],
    ['discover_local: false\nmodels: {n: ollama/x}', 'no provider "ollama" is configured'],
  ])('%s is a fault', (text, fault) => {
    expect(faults(yaml(PROVIDERS + text))).toEqual([expect.stringContaining(fault)])
  })
})

describe('several keys of one provider', () => {
  test('are secrets, with or without a weight; the first one is used for calls of the gateway itself', () => {
    const text = 'providers: {openai: {api_keys: [k-1, {key: {env: SECOND}, weight: 3}]}}'
    expect(good(yaml(text, { SECOND: 'k-2', OPENAI_API_KEY: 'unused' })).providers).toMatchObject([
      {
        name: 'openai',
        apiKey: 'k-1',
        apiKeys: [
          { key: 'k-1', weight: 1 },
          { key: 'k-2', weight: 3 },
        ],
      },
    ])
    expect(good(yaml('providers: {openai: {api_keys: [k-1]}}')).providers).toMatchObject([{ apiKey: 'k-1' }])
  })

  test.each([
    ['api_keys: k-1', 'api_keys: must be a list of keys'],
    ['api_keys: []', 'api_keys: is empty'],
    ['api_keys: [k-1], api_key: k-2', 'api_keys: cannot be combined with api_key'],
    ['api_keys: [{key: k-1, weight: -1}]', 'api_keys.0.weight: must be above 0'],
    ['api_keys: [{env: NOWHERE}]', 'api_keys.0: environment variable NOWHERE is not set'],
    ['api_keys: ["a b"]', 'api_keys.0: contains a space'],
  ])('%s is a fault', (text, fault) => {
    const found = faults(yaml(`providers: {openai: {${text}}}`))
    expect(found).toEqual([expect.stringContaining(fault)])
    expect(found.join()).not.toMatch(/k-1|a b/)
  })
})

describe('facts about models', () => {
  test('may be set for models that the gateway does not know', () => {
    const model = '{id: large, context_tokens: 131072, input: [text, image], output: [text]}'
    const text = `providers: {house: {base_url: "http://h/v1", models: [small, ${model}]}}`
    expect(good(yaml(text)).providers).toMatchObject([
      {
        models: ['small', 'large'],
        facts: { large: { contextTokens: 131_072, input: ['text', 'image'], output: ['text'] } },
      },
    ])
  })

  test.each([
    ['{id: a, context_tokens: many}', 'models.0.context_tokens: must be a whole number'],
    ['{id: a, input: [smell]}', 'models.0.input.0: must be one of text'],
    ['{context_tokens: 1}', 'models.0.id: must be the name of a model'],
  ])('%s is a fault', (model, fault) => {
    const text = `providers: {house: {base_url: "http://h/v1", models: [${model}]}}`
    expect(faults(yaml(text))).toEqual([expect.stringContaining(fault)])
  })
})

describe('vertex', () => {
  const key = keyFile('https://oauth2.example/token')
  const files = (text: string, json: object = key) => ({
    [FILE]: text,
    '/run/secrets/vertex.json': JSON.stringify(json),
  })
  const CREDENTIALS = 'credentials: {file: /run/secrets/vertex.json}'
  const vertex = {
    name: 'vertex',
    kind: 'vertex',
    publisher: 'google',
    project: 'house-123',
    location: 'europe-west4',
    baseUrl: undefined,
    credentials: accountAt('https://oauth2.example/token'),
    headers: {},
    models: undefined,
  }

  test('needs a location and the key of a service account, whose project is the default', () => {
    const text = `providers: {vertex: {location: europe-west4, ${CREDENTIALS}}, claude: {kind: vertex, publisher: anthropic, project: other-1, location: global, region: eu, ${CREDENTIALS}}}`
    expect(good({ files: files(text) }).providers).toEqual([
      vertex,
      { ...vertex, name: 'claude', publisher: 'anthropic', project: 'other-1', location: 'global', region: 'eu' },
    ])
  })

  test('reads missing values from the environment, which alone configures nothing', () => {
    const env = {
      GOOGLE_APPLICATION_CREDENTIALS: '/run/secrets/vertex.json',
      GOOGLE_CLOUD_PROJECT: 'from-env',
      GOOGLE_CLOUD_LOCATION: 'europe-west4',
    }
    expect(good({ env, files: files('providers: {vertex: {}}') }).providers).toEqual([
      { ...vertex, project: 'from-env' },
    ])
    expect(good({ env, files: files('') }).providers).toEqual([])
    expect(
      faults({ env: { ...env, GOOGLE_CLOUD_LOCATION: 'moon!' }, files: files('providers: {vertex: {}}') }),
    ).toEqual([
      expect.stringContaining('environment variable GOOGLE_CLOUD_LOCATION "moon!" is not a location of Vertex AI'),
    ])
  })

  test('sends no credentials of the environment to a custom address under another name', () => {
    const env = { GOOGLE_APPLICATION_CREDENTIALS: '/run/secrets/vertex.json' }
    const custom = 'project: house-123, location: eu, base_url: "http://h/v1/"'
    const text = `providers: {house: {kind: vertex, ${custom}}, vertex: {${custom}}}`
    expect(good({ env, files: files(text) }).providers).toMatchObject([
      { name: 'house', baseUrl: 'http://h/v1', credentials: undefined },
      { name: 'vertex', credentials: { privateKeyId: 'key-1' } },
    ])
  })

  test.each<[string, object, string]>([
    [`{${CREDENTIALS}}`, key, 'vertex.location: is missing; set it here, such as europe-west4'],
    ['{location: eu}', key, 'vertex.credentials: is missing; set the key of a service account'],
    [`{location: "eu.evil.example/", ${CREDENTIALS}}`, key, 'vertex.location: "eu.evil.example/" is not a location'],
    [
      `{location: eu, project: "a/b", ${CREDENTIALS}}`,
      key,
      'vertex.project: "a/b" is not the id of a Google Cloud project',
    ],
    [`{location: eu, ${CREDENTIALS}}`, { ...key, project_id: undefined }, 'vertex: needs a project; set project'],
    [`{location: eu, ${CREDENTIALS}}`, [], 'vertex.credentials: is not the JSON key of a service account'],
    [`{location: eu, ${CREDENTIALS}}`, { ...key, type: 'authorized_user' }, 'vertex.credentials: is not the JSON key'],
    [`{location: eu, ${CREDENTIALS}}`, { ...key, private_key: 's-secret' }, 'without a valid private_key'],
    [`{location: eu, ${CREDENTIALS}}`, { ...key, client_email: 7 }, 'without a valid client_email'],
    [`{location: eu, ${CREDENTIALS}}`, { ...key, token_uri: 'file:///etc/passwd' }, 'without a valid token_uri'],
    [`{location: eu, publisher: meta, ${CREDENTIALS}}`, key, 'vertex.publisher: must be one of google, anthropic'],
    [`{location: eu, api_key: k-secret, ${CREDENTIALS}}`, key, 'vertex.api_key: unknown key'],
    [`{location: eu, api_version: "1", ${CREDENTIALS}}`, key, 'vertex.api_version: unknown key'],
    [`{kind: 1, location: eu, ${CREDENTIALS}}`, key, 'vertex.kind: must be one of openai'],
    ['{location: eu, credentials: {file: /nowhere}}', key, 'vertex.credentials: cannot read /nowhere'],
  ])('%s with the key %# is rejected', (entry, json, reason) => {
    const found = faults({ files: files(`providers: {vertex: ${entry}}`, json) })
    expect(found).toEqual([expect.stringContaining(reason)])
    expect(found.join()).not.toMatch(/s-secret|k-secret|PRIVATE KEY/)
  })
})

test('Cohere uses its own interface and needs only a key; an account with an address of its own needs its URL', () => {
  const text = 'providers: {cohere: {api_key: k}, house: {kind: cohere, base_url: "http://h"}}'
  expect(good(yaml(text, { CO_API_KEY: 'env' })).providers).toMatchObject([
    { name: 'cohere', kind: 'cohere', baseUrl: 'https://api.cohere.com', apiKey: 'k' },
    { name: 'house', kind: 'cohere', baseUrl: 'http://h', apiKey: undefined },
  ])
  expect(good({ env: { CO_API_KEY: 'env' } }).providers).toMatchObject([{ name: 'cohere', apiKey: 'env' }])
  expect(faults(yaml('providers: {cohere: {api_key: k, api: responses}, databricks: {api_key: k}}'))).toEqual([
    expect.stringMatching(/providers\.cohere\.api: applies only to kind: openai and kind: azure; remove it/),
    expect.stringMatching(/providers\.databricks\.base_url: is missing; set the URL of your account/),
  ])
})

describe('bedrock', () => {
  const byKey = {
    name: 'bedrock',
    kind: 'bedrock',
    region: 'eu-central-1',
    baseUrl: undefined,
    apiKey: 'k',
    credentials: undefined,
    headers: {},
    models: undefined,
  }
  const keys = { AWS_ACCESS_KEY_ID: 'AKID', AWS_SECRET_ACCESS_KEY: 'from-env' }

  test('needs a region and an API key, by name or by kind', () => {
    const text =
      'providers: {bedrock: {region: eu-central-1, api_key: k}, aws: {kind: bedrock, region: us-gov-west-1, api_key: k, base_url: "http://h/"}}'
    expect(good(yaml(text)).providers).toEqual([
      byKey,
      { ...byKey, name: 'aws', region: 'us-gov-west-1', baseUrl: 'http://h' },
    ])
  })

  test('accepts credentials instead of an API key, each part as a secret reference', () => {
    const credentials = 'access_key_id: AKID, secret_access_key: {file: /run/secrets/aws}, session_token: {env: TOKEN}'
    const text = `providers: {bedrock: {region: eu-central-1, models: [a, {id: b}], credentials: {${credentials}}}}`
    // The file takes precedence over the environment.
    const env = { TOKEN: 't', AWS_BEARER_TOKEN_BEDROCK: 'other', AWS_SESSION_TOKEN: 'other', ...keys }
    expect(good({ env, files: { [FILE]: text, '/run/secrets/aws': 's\n' } }).providers).toEqual([
      {
        ...byKey,
        apiKey: undefined,
        credentials: { accessKeyId: 'AKID', secretAccessKey: 's', sessionToken: 't' },
        models: ['a', 'b'],
      },
    ])
  })

  test('reads missing values from the environment, an API key before credentials', () => {
    const entry = 'providers: {bedrock: {}}'
    const key = { AWS_BEARER_TOKEN_BEDROCK: 'k' }
    const region = { AWS_DEFAULT_REGION: 'eu-central-1' }
    expect(good(yaml(entry, { ...key, ...region, ...keys })).providers).toEqual([byKey])
    expect(good(yaml(entry, { ...key, ...region, AWS_REGION: 'us-east-1' })).providers).toMatchObject([
      { region: 'us-east-1' },
    ])
    expect(good(yaml(entry, { ...keys, ...region, AWS_SESSION_TOKEN: 't' })).providers).toEqual([
      {
        ...byKey,
        apiKey: undefined,
        credentials: { accessKeyId: 'AKID', secretAccessKey: 'from-env', sessionToken: 't' },
      },
    ])
    const own = 'providers: {bedrock: {region: us-west-2, api_key: own}}'
    expect(good(yaml(own, { ...key, ...region, ...keys })).providers).toEqual([
      { ...byKey, region: 'us-west-2', apiKey: 'own' },
    ])
  })

  test('is enabled by its own API key and a region, but not by the credentials of other programs', () => {
    const key = { AWS_BEARER_TOKEN_BEDROCK: 'k' }
    expect(good({ env: { ...key, AWS_REGION: 'eu-central-1', ...keys } }).providers).toEqual([byKey])
    expect(good({ env: { ...key, AWS_DEFAULT_REGION: 'eu-central-1' } }).providers).toEqual([byKey])
    expect(good({ env: key }).providers).toEqual([])
    expect(good({ env: { ...keys, AWS_REGION: 'eu-central-1' } }).providers).toEqual([])
    // The region of a disabled provider is not checked either.
    expect(good({ env: { ...keys, AWS_REGION: 'moon' } }).providers).toEqual([])
    expect(faults({ env: { ...key, AWS_REGION: 'moon' } })).toEqual([
      'provider bedrock: environment variable AWS_REGION "moon" is not the name of an AWS region; write one such as eu-central-1',
    ])
  })

  test('secrets of the environment are not sent to a custom address under another name', () => {
    const env = { AWS_BEARER_TOKEN_BEDROCK: 'k', AWS_REGION: 'eu-central-1', ...keys }
    const text =
      'providers: {house: {kind: bedrock, base_url: "http://h"}, bedrock: {base_url: "http://h"}, aws: {kind: bedrock}}'
    expect(good(yaml(text, env)).providers).toMatchObject([
      { name: 'house', region: 'eu-central-1', apiKey: undefined, credentials: undefined },
      { name: 'bedrock', apiKey: 'k', credentials: undefined },
      { name: 'aws', apiKey: 'k', credentials: undefined },
    ])
  })

  test.each<[string, string, string[]]>([
    ['{}', '', ['region: is missing; set it here', 'api_key: is missing; set it or credentials here']],
    ['{api_key: k}', '', ['region: is missing']],
    ['{region: eu-central-1}', '', ['api_key: is missing']],
    ['{region: "eu-central-1.evil.example/", api_key: k}', '', ['region: "eu-central-1.evil.example/" is not']],
    ['{region: 1, api_key: k}', '', ['region: must be the name']],
    ['{region: eu-central-1, api_key: k s-secret}', '', ['api_key: contains a space']],
    ['{region: eu-central-1, credentials: }', '', ['credentials: must contain access_key_id and secret_access_key']],
    ['{region: eu-central-1, credentials: {access_key_id: a}}', '', ['credentials.secret_access_key: is missing']],
    [
      '{region: eu-central-1, credentials: {access_key_id: "a b", secret_access_key: s-secret}}',
      '',
      ['credentials.access_key_id: contains a space'],
    ],
    [
      '{region: eu-central-1, api_key: k, credentials: {access_key_id: a, secret_access_key: b}}',
      '',
      ['credentials: cannot be combined with api_key'],
    ],
    [
      '{region: eu-central-1}',
      'AWS_ACCESS_KEY_ID',
      ['credentials: environment variable AWS_SECRET_ACCESS_KEY is not set'],
    ],
    ['{region: eu-central-1}', 'AWS_SECRET_ACCESS_KEY', ['credentials: environment variable AWS_ACCESS_KEY_ID is not']],
    [
      '{region: eu-central-1, kind: 1, api_key: k}',
      '',
      ['kind: must be one of openai, azure, anthropic, google, cohere, bedrock, vertex'],
    ],
    ['{region: eu-central-1, api_key: k, api_version: "2024-10-21"}', '', ['api_version: unknown key']],
  ])('%s is rejected', (entry, variable, reasons) => {
    const found = faults(yaml(`providers: {bedrock: ${entry}}`, variable === '' ? {} : { [variable]: 's-secret' }))
    expect(found).toEqual(reasons.map((reason) => expect.stringContaining(`providers.bedrock.${reason}`)))
    expect(found.join()).not.toContain('s-secret')
  })

  test.each(['us-east-1', 'ap-southeast-4', 'us-gov-east-1', 'cn-northwest-1', 'mx-central-1', 'eusc-de-east-1'])(
    '%s is a region',
    (region) => {
      expect(good(yaml(`providers: {bedrock: {region: ${region}, api_key: k}}`)).providers).toMatchObject([{ region }])
    },
  )
})

describe('delivered files', () => {
  const surroundings = {
    env: { CREDENTIALS_DIRECTORY: '/creds', AIGW_TEAM_TOKEN: 't', MISTRAL_API_KEY: 'k', HOME: '/home/ada' },
    files: {
      '/creds/openai-key': 'k',
      '/creds/aws-key-id': 'AKID',
      '/creds/aws-secret-key': 'k',
      '/creds/bootstrap-key': KEY,
      '/creds/database-url': 'postgres://u:p@h/d',
      '/etc/aigw/secrets/house-key': 'k',
      '/etc/aigw/secrets/vertex.json': JSON.stringify(keyFile('https://oauth2.example/token')),
    },
  }
  const read = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8')

  test('deploy/aigw.yaml as delivered is a valid configuration with the defaults', () => {
    expect(good(yaml(read('deploy/aigw.yaml')))).toEqual(good({}))
  })

  test('deploy/aigw.yaml with every example enabled is a valid configuration', () => {
    const text = read('deploy/aigw.yaml').replace(/^#(?! |$)|^#(?= {2})/gm, '')
    const config = good({ env: surroundings.env, files: { ...surroundings.files, [FILE]: text } })
    expect(config).toMatchObject({ database: { kind: 'postgres' }, bootstrapKey: KEY, dataDir: '/var/lib/aigw' })
    expect(config.providers.map(({ name }) => name)).toEqual(['openai', 'ollama', 'house', 'mistral'])
  })

  test('every YAML example of docs/configuration.md is a valid configuration', () => {
    const examples = [...read('docs/configuration.md').matchAll(/```yaml\n(.*?)```/gs)].map((match) => match[1] ?? '')
    expect(examples.length).toBeGreaterThanOrEqual(3)
    for (const example of examples) good({ env: surroundings.env, files: { ...surroundings.files, [FILE]: example } })
  })

  test('docs/configuration.md names every flag, every variable and every key of the file', () => {
    const page = read('docs/configuration.md')
    const [fault = ''] = faults(yaml('zzzzzzzzzz: 1'))
    const [providerFault = ''] = faults(yaml('providers: {vllm: {zzzzzzzzzz: 1}}'))
    const bedrock =
      'region: eu-central-1, credentials: {access_key_id: a, secret_access_key: b, zzzzzzzzzz: 1}, zzzzzzzzzz: 1'
    const bedrockFaults = faults(yaml(`providers: {bedrock: {${bedrock}}}`))
    expect(bedrockFaults).toHaveLength(2)
    const keys = [fault, providerFault, ...bedrockFaults].flatMap(
      (line) => line.split('known keys: ')[1]?.split(', ') ?? [],
    )
    expect(keys.length).toBeGreaterThanOrEqual(12)
    const variables = Array.from(
      read('src/daemon/config/config.ts').matchAll(/env\.([A-Z_]+)/g),
      (match) => match[1] ?? '',
    )
    expect(variables.length).toBeGreaterThanOrEqual(8)
    for (const name of [...keys, ...variables, '--config', '--listen', '--data-dir', '--check'])
      expect(page).toContain(`\`${name}`)
  })
})

describe('cors', () => {
  test('is off by default, and lists origins as browsers send them', () => {
    expect(good(yaml('')).cors).toBeUndefined()
    expect(good(yaml('cors: {origins: ["https://app.example.com", "http://localhost:3000"]}')).cors).toEqual({
      origins: ['https://app.example.com', 'http://localhost:3000'],
    })
    expect(good(yaml('cors: {origins: ["*"]}')).cors).toEqual({ origins: ['*'] })
  })

  test.each([
    ['https://app.example.com/', 'write "https://app.example.com"'],
    ['https://App.example.com', 'write "https://app.example.com"'],
    ['https://app.example.com:443', 'write "https://app.example.com"'],
    ['https://*.example.com', 'is not an origin'],
    ['app.example.com', 'such as https://app.example.com'],
    ['null', 'such as https://app.example.com'],
  ])('%s is an error', (origin, fault) => {
    expect(faults(yaml(`cors: {origins: ["${origin}"]}`))).toEqual([expect.stringContaining(fault)])
  })
})

describe('time limits of a provider', () => {
  test('are read by model, with * for all other models', () => {
    const text = 'providers: {own: {base_url: "http://x", timeouts: {"*": {silence: 10m}, slow: {first_token: 20m}}}}'
    const own = good(yaml(text)).providers.find(({ name }) => name === 'own')
    expect(own?.timeouts).toEqual({ '*': { silenceMs: 600_000 }, slow: { firstTokenMs: 1_200_000 } })
  })

  test.each([
    ['{slow: {silence: 2h}}', 'is not a duration'],
    ['{slow: {quiet: 2m}}', 'unknown key'],
    ['{slow: 2m}', 'must contain first_token, attempt or silence'],
  ])('%s is an error', (timeouts, fault) => {
    const text = `providers: {own: {base_url: "http://x", timeouts: ${timeouts}}}`
    expect(faults(yaml(text))).toEqual([expect.stringContaining(fault)])
  })
})
