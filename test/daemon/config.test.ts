import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Config, ConfigFaults, loadConfig } from '../../src/daemon/config.ts'

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
  test('nothing at all is a working configuration', () => {
    expect(good({})).toEqual({
      listen: { host: '127.0.0.1', port: 8787 },
      dataDir: '/home/ada/.local/state/aigw',
      database: { kind: 'sqlite' },
      bootstrapKey: undefined,
      providers: [],
      log: { level: 'info' },
      drainTimeoutMs: 25_000,
    })
  })

  test('an empty file, and sections without content, mean the defaults', () => {
    expect(good(yaml(''))).toEqual(good({}))
    expect(good(yaml('# nothing\n'))).toEqual(good({}))
    expect(good(yaml('log:\ndatabase:\nproviders:\n'))).toEqual(good({}))
  })

  test('the data directory is the state directory of systemd, then that of XDG, then one below HOME', () => {
    const env = { STATE_DIRECTORY: '/var/lib/aigw:/var/lib/other', XDG_STATE_HOME: '/state' }
    expect(good({ env }).dataDir).toBe('/var/lib/aigw')
    expect(good({ env: { XDG_STATE_HOME: '/state' } }).dataDir).toBe('/state/aigw')
    expect(good({ env: { XDG_STATE_HOME: 'relative' } }).dataDir).toBe('/home/ada/.local/state/aigw')
    expect(faults({ env: { HOME: '' } })).toEqual([expect.stringContaining('--data-dir')])
  })

  test('the configuration cannot be changed by whoever is handed it', () => {
    const config = good(yaml('providers: {house: {base_url: "http://h/v1", models: [a]}}'))
    expect(Object.isFrozen(config)).toBe(true)
    expect(Object.isFrozen(config.listen)).toBe(true)
    expect(Object.isFrozen(config.providers[0]?.models)).toBe(true)
  })
})

describe('sources', () => {
  test('a flag wins over the environment, the environment over the file, the file over the default', () => {
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

  test('a file that was named must be there', () => {
    expect(faults({ argv: ['--config', '/nowhere.yaml'] })).toEqual([
      '/nowhere.yaml: cannot be read (it does not exist)',
    ])
    expect(faults({ env: { AIGW_CONFIG: '/nowhere.yaml' } })).toHaveLength(1)
  })

  test('relative paths in the file start at its folder', () => {
    const files = {
      '/srv/gw/aigw.yaml': 'data_dir: state\nbootstrap_key: {file: secrets/key}',
      '/srv/gw/secrets/key': `${KEY}\n`,
    }
    expect(good({ files, argv: ['--config', '/srv/gw/aigw.yaml'] })).toMatchObject({
      dataDir: '/srv/gw/state',
      bootstrapKey: KEY,
    })
  })

  test('a variable that is set to nothing counts as not set', () => {
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

  test('variables of the command line client, and of other programs, change nothing', () => {
    expect(good({ env: { AIGW_PROFILE: 'home', AIGW_BASE_URL: 'x', ANTHROPIC_API_KEY: 'x' } })).toEqual(good({}))
  })

  test('AIGW_MASTER_KEY_FILE must name a file that can be read', () => {
    const env = { AIGW_MASTER_KEY_FILE: '/run/secrets/master' }
    expect(good({ env, files: { '/run/secrets/master': 'k' } })).toEqual(good({}))
    expect(faults({ env })).toEqual(['AIGW_MASTER_KEY_FILE: cannot read /run/secrets/master (it does not exist)'])
  })

  test('WEBHOOKS_ALLOW_PRIVATE is true or false', () => {
    for (const value of ['true', 'false', ''])
      expect(good({ env: { WEBHOOKS_ALLOW_PRIVATE: value } })).toEqual(good({}))
    for (const value of ['1', 'yes', 'TRUE', ' true'])
      expect(faults({ env: { WEBHOOKS_ALLOW_PRIVATE: value } })).toEqual([
        `WEBHOOKS_ALLOW_PRIVATE: "${value}" is neither true nor false`,
      ])
  })

  test('AIGW_PARENT_PIPE is the number of a descriptor', () => {
    expect(good({ env: { AIGW_PARENT_PIPE: '3' } }).parentPipe).toBe(3)
    expect(good({}).parentPipe).toBeUndefined()
    for (const value of ['-1', 'three', '3.5', '/dev/fd/3'])
      expect(faults({ env: { AIGW_PARENT_PIPE: value } })).toEqual([expect.stringMatching(/^AIGW_PARENT_PIPE: /)])
  })

  test('AIGW_BOOTSTRAP_KEY wins over bootstrap_key', () => {
    expect(good(yaml(`bootstrap_key: ${OTHER_KEY}`)).bootstrapKey).toBe(OTHER_KEY)
    expect(good(yaml(`bootstrap_key: ${OTHER_KEY}`, { AIGW_BOOTSTRAP_KEY: KEY })).bootstrapKey).toBe(KEY)
  })
})

describe('flags', () => {
  test('every fault of the command line is named, with the option that was meant', () => {
    expect(faults({ argv: ['--lisen', 'x', '--data-dir', '--check=yes', 'serve', '-x'] })).toEqual([
      expect.stringMatching(/^--lisen: unknown option; did you mean "--listen"\?/),
      expect.stringMatching(/^--data-dir: needs a value/),
      expect.stringMatching(/^"serve" is not expected/),
      expect.stringMatching(/^-x: unknown option/),
    ])
  })

  test('a faulty flag, variable and file are reported together', () => {
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
  ])('%s is refused with an example', (text) => {
    const [fault, ...more] = faults({ argv: ['--listen', text] })
    expect(more).toEqual([])
    expect(fault).toMatch(/^--listen: .*(write|use) /)
  })

  test('no text makes the parser fail in another way than with a fault', () => {
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
  test('every fault is one line with file, line, key, and what to do', () => {
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
      at(3, 'data_dir', /write the whole path/),
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
      at(14, 'providers.house.models.2', /must be the name of a model/),
    ])
    expect(found.join()).not.toContain('hunter2')
  })

  test('text that is not YAML is a fault with its line, and does not repeat the text', () => {
    expect(faults(yaml('listen: [::1]:8787'))).toEqual([
      expect.stringMatching(/^\/etc\/aigw\/aigw\.yaml:1: not valid YAML: .*need quotes$/),
    ])
    expect(faults(yaml('log: {}\nlog: {}'))).toEqual([
      expect.stringMatching(/:2: not valid YAML: Map keys must be unique/),
    ])
    expect(faults(yaml('a: b\n]sk-secret')).join()).not.toContain('sk-secret')
    expect(faults(yaml('- a'))).toEqual([`${FILE}: must be a mapping of keys, such as listen:`])
  })

  test('aliases that unfold without end are refused', () => {
    const bomb = `a: &a [${'x,'.repeat(10)}]\nb: &b [${'*a,'.repeat(10)}]\nc: &c [${'*b,'.repeat(10)}]\nd: [${'*c,'.repeat(10)}]\n`
    expect(faults(yaml(bomb))).toEqual([`${FILE}: repeats its aliases too often`])
  })

  test('no text makes the parser fail in another way than with faults', () => {
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
    ['"two words"', 'holds a space'],
  ])('%s is refused: %s', (reference, reason) => {
    const found = faults(withKey(reference))
    expect(found).toEqual([expect.stringContaining(reason)])
    expect(found.join()).not.toContain('sk-secret')
  })

  test('a credential needs the directory that systemd gives', () => {
    expect(faults(yaml('bootstrap_key: {credential: key}'))).toEqual([expect.stringContaining('LoadCredential=key:')])
  })

  test('a bootstrap key must be sk- and 64 hex characters, and a wrong one is not repeated', () => {
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

  test('a well-known provider appears when its usual variable is set', () => {
    const env = { OPENAI_API_KEY: 'k1', MISTRAL_API_KEY: 'k2' }
    expect(good({ env }).providers.map(({ name, apiKey }) => [name, apiKey])).toEqual([
      ['openai', 'k1'],
      ['mistral', 'k2'],
    ])
  })

  test('an entry in the file takes the usual variable as its key, and its own key first', () => {
    const env = { OPENAI_API_KEY: 'from-env' }
    expect(good(yaml('providers: {openai: {models: [gpt-4o]}}', env)).providers).toMatchObject([
      { name: 'openai', apiKey: 'from-env', models: ['gpt-4o'] },
    ])
    expect(good(yaml('providers: {openai: {api_key: own}}', env)).providers).toMatchObject([{ apiKey: 'own' }])
  })

  test('a key that is meant for another address is not shown to the known one', () => {
    const env = { OPENAI_API_KEY: 'k', OPENAI_BASE_URL: 'https://proxy.example/v1/' }
    expect(good({ env }).providers).toMatchObject([{ name: 'openai', baseUrl: 'https://proxy.example/v1' }])
    expect(faults({ env: { ...env, OPENAI_BASE_URL: 'proxy' } })).toEqual([
      expect.stringContaining('OPENAI_BASE_URL is not a URL'),
    ])
  })

  test('a faulty key in a usual variable is a fault that names the variable and not the key', () => {
    const found = faults({ env: { OPENAI_API_KEY: 'sk-two words' } })
    expect(found).toEqual([expect.stringContaining('environment variable OPENAI_API_KEY holds a space')])
    expect(found.join()).not.toContain('two words')
  })

  test("ollama and vllm need no key, and neither does an address of one's own", () => {
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

  test('kinds to come are refused with a reason, by kind and by name', () => {
    const text =
      'providers: {a: {kind: anthropic, base_url: "http://h"}, google: {api_key: k}, b: {kind: opnai, base_url: "http://h"}}'
    expect(faults(yaml(text))).toEqual([
      expect.stringMatching(/providers\.a\.kind: kind anthropic is not supported by this version/),
      expect.stringMatching(/providers\.google: kind google is not supported by this version/),
      expect.stringMatching(/providers\.b\.kind: "opnai" is not a kind of provider; did you mean "openai"\?/),
    ])
  })

  test('prices, also those of a model, are refused with a reason until they are used', () => {
    const text =
      'providers: {a: {base_url: "http://h", prices: {m: 1}}, b: {base_url: "http://h", models: [{id: m, prices: 1}]}}'
    expect(faults(yaml(text))).toEqual([
      expect.stringMatching(/providers\.a\.prices: is not supported by this version; remove it$/),
      expect.stringMatching(/providers\.b\.models\.0: must be the name of a model, or \{id: NAME\}$/),
    ])
  })

  test('a name to come is free for an OpenAI-compatible address', () => {
    const text = 'providers: {anthropic: {kind: openai, base_url: "https://api.anthropic.com/v1", api_key: k}}'
    expect(good(yaml(text)).providers).toMatchObject([{ name: 'anthropic', kind: 'openai' }])
  })

  test('local is always there: naming it changes nothing, and it takes no settings', () => {
    expect(good(yaml('providers: {local: {kind: local}}'))).toEqual(good({}))
    expect(faults(yaml('providers: {local: {kind: openai, api_key: k}}'))).toHaveLength(2)
    expect(faults(yaml('providers: {other: {kind: local, base_url: "http://h"}}'))).toHaveLength(1)
  })

  test.each(['Open', 'a/b', '""', '"a b"'])('%s cannot be the name of a provider', (name) => {
    expect(faults(yaml(`providers: {${name}: {base_url: "http://h"}}`))).toEqual([
      expect.stringContaining('must be a name of'),
    ])
  })

  test.each(['Host', 'Content-Length', '"a b"'])('header %s is refused', (name) => {
    expect(faults(yaml(`providers: {house: {base_url: "http://h", headers: {${name}: x}}}`))).toHaveLength(1)
  })

  test.each(['ftp://h/v1', 'h/v1', 'http://h/v1?x=1', 'http://h/v1#x'])('base_url %s is refused', (url) => {
    expect(faults(yaml(`providers: {house: {base_url: "${url}"}}`))).toEqual([expect.stringContaining('base_url')])
  })
})

describe('what we hand out', () => {
  const surroundings = {
    env: { CREDENTIALS_DIRECTORY: '/creds', AIGW_TEAM_TOKEN: 't', MISTRAL_API_KEY: 'k', HOME: '/home/ada' },
    files: {
      '/creds/openai-key': 'k',
      '/creds/bootstrap-key': KEY,
      '/creds/database-url': 'postgres://u:p@h/d',
      '/etc/aigw/secrets/house-key': 'k',
    },
  }
  const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

  test('deploy/aigw.yaml as delivered is a working configuration with the defaults', () => {
    expect(good(yaml(read('deploy/aigw.yaml')))).toEqual(good({}))
  })

  test('deploy/aigw.yaml with every example taken in is a working configuration', () => {
    const text = read('deploy/aigw.yaml').replace(/^#(?! |$)|^#(?= {2})/gm, '')
    const config = good({ env: surroundings.env, files: { ...surroundings.files, [FILE]: text } })
    expect(config).toMatchObject({ database: { kind: 'postgres' }, bootstrapKey: KEY, dataDir: '/var/lib/aigw' })
    expect(config.providers.map(({ name }) => name)).toEqual(['openai', 'ollama', 'house', 'mistral'])
  })

  test('every YAML example of docs/configuration.md is a working configuration', () => {
    const examples = [...read('docs/configuration.md').matchAll(/```yaml\n(.*?)```/gs)].map((match) => match[1] ?? '')
    expect(examples.length).toBeGreaterThanOrEqual(3)
    for (const example of examples) good({ env: surroundings.env, files: { ...surroundings.files, [FILE]: example } })
  })

  test('docs/configuration.md names every flag, every variable and every key of the file', () => {
    const page = read('docs/configuration.md')
    const [fault = ''] = faults(yaml('zzzzzzzzzz: 1'))
    const [providerFault = ''] = faults(yaml('providers: {vllm: {zzzzzzzzzz: 1}}'))
    const keys = [fault, providerFault].flatMap((line) => line.split('known here: ')[1]?.split(', ') ?? [])
    expect(keys.length).toBeGreaterThanOrEqual(12)
    const variables = Array.from(read('src/daemon/config.ts').matchAll(/env\.([A-Z_]+)/g), (match) => match[1] ?? '')
    expect(variables.length).toBeGreaterThanOrEqual(8)
    for (const name of [...keys, ...variables, '--config', '--listen', '--data-dir', '--check'])
      expect(page).toContain(`\`${name}`)
  })
})
