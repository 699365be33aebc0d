import { execFile } from 'node:child_process'
import { access, cp, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { parse } from 'yaml'

const run = promisify(execFile)
const project = fileURLToPath(new URL('../..', import.meta.url))
const composeDir = join(project, 'deploy/compose')
const read = (file: string) => readFile(join(project, file), 'utf8')

type Service = {
  user?: string
  read_only?: boolean
  volumes?: string[]
  secrets?: string[]
  command?: string[]
  environment?: Record<string, string>
  cap_drop?: string[]
}
type Compose = { services: Record<string, Service>; secrets: Record<string, { file: string }>; volumes: object }

let scratch: string
beforeEach(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'aigw-container-'))
})
afterEach(() => rm(scratch, { recursive: true }))

/** The instructions of the Dockerfile, with continued lines joined. */
async function instructions(): Promise<[word: string, text: string][]> {
  const joined = (await read('Dockerfile')).replace(/\\\n\s*/g, '')
  return joined
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => [line.slice(0, line.indexOf(' ')), line.slice(line.indexOf(' ') + 1)])
}

test('the image runs without root, reports its health, and keeps its state in one volume', async () => {
  const all = await instructions()
  const last = (word: string) => all.findLast(([own]) => own === word)?.[1] ?? ''
  expect(all.filter(([word]) => word === 'FROM')).toHaveLength(2)
  expect(last('USER')).toBe('node')
  expect(last('VOLUME')).toBe('/var/lib/aigw')
  expect(last('ENTRYPOINT')).toBe('["aigwd"]')
  expect(last('ENV')).toContain('AIGW_DATA_DIR=/var/lib/aigw')
  const [, check = ''] = /CMD (\[.*\])$/.exec(last('HEALTHCHECK')) ?? []
  const [program, ...words] = JSON.parse(check) as string[]
  expect(program).toBe('aigw')
  // The command line accepts these words: nothing listens here, so it says so.
  const cli = join(inject('builtProject'), 'bin/aigw.js')
  const env = { PATH: process.env.PATH, HOME: scratch, AIGW_BASE_URL: 'http://127.0.0.1:9' }
  const failure = await run(process.execPath, [cli, ...words], { env }).then(
    () => undefined,
    ({ code }: { code: number }) => code,
  )
  expect(failure).toBe(9)
})

test('every file that the image copies exists and is in its build context', async () => {
  const ignore = (await read('.dockerignore')).split('\n').filter((line) => line !== '')
  expect(ignore[0]).toBe('*')
  const context = ignore.slice(1).map((line) => line.replace(/^!/, ''))
  for (const file of context) await access(join(project, file))
  const build = (await instructions()).filter(([word, text]) => word === 'COPY' && text.startsWith('--from=build'))
  for (const [, text] of build) {
    for (const source of text.split(' ').slice(1, -1)) {
      const file = source.replace('/src/', '')
      if (file === 'dist' || file === 'node_modules') continue
      expect(
        context.some((one) => file === one || file.startsWith(`${one}/`)),
        file,
      ).toBe(true)
    }
  }
  // What the build runs.
  const { scripts } = JSON.parse(await read('package.json')) as { scripts: Record<string, string> }
  for (const [file] of scripts.build?.matchAll(/scripts\/[\w-]+\.mjs/g) ?? []) expect(context).toContain(file)
})

test('compose mounts only files that exist, and the services of the gateway cannot write to their root', async () => {
  const { services, secrets, volumes } = parse(await read('deploy/compose/compose.yaml')) as Compose
  expect(Object.keys(services).sort()).toEqual(['aigw', 'grafana', 'postgres', 'prometheus'])
  for (const [name, service] of Object.entries(services)) {
    for (const secret of service.secrets ?? []) expect(Object.keys(secrets), name).toContain(secret)
    for (const mount of service.volumes ?? []) {
      const [source = ''] = mount.split(':')
      if (source.startsWith('.')) await access(join(composeDir, source))
      else expect(Object.keys(volumes)).toContain(source)
    }
  }
  expect(services.aigw).toMatchObject({ read_only: true, cap_drop: ['ALL'] })
  expect(services.prometheus).toMatchObject({ read_only: true, cap_drop: ['ALL'] })
  const rules = parse(await read('deploy/compose/prometheus.yml')) as { rule_files: string[]; scrape_configs: object[] }
  for (const file of rules.rule_files) {
    expect(services.prometheus?.volumes?.some((mount) => mount.split(':')[1] === file)).toBe(true)
  }
  expect(rules.scrape_configs).toMatchObject([
    { job_name: 'aigw', authorization: { credentials_file: '/run/secrets/operator-key' } },
  ])
  const provider = parse(await read('deploy/compose/grafana/provisioning/dashboards/aigw.yaml'))
  const [{ options }] = provider.providers
  expect(services.grafana?.volumes).toContain(`../grafana:${options.path}:ro`)
})

test('secrets.sh creates every secret once, and the configuration is valid with them', async () => {
  const copy = join(scratch, 'compose')
  await cp(composeDir, copy, { recursive: true, filter: (file) => !file.startsWith(join(composeDir, 'secrets/')) })
  await run('sh', [join(copy, 'secrets.sh')])
  const { secrets } = parse(await read('deploy/compose/compose.yaml')) as Compose
  const contents = () => Promise.all(Object.values(secrets).map(({ file }) => readFile(join(copy, file), 'utf8')))
  const first = await contents()
  expect((await stat(join(copy, 'secrets'))).mode & 0o777).toBe(0o700)
  await run('sh', [join(copy, 'secrets.sh')])
  expect(await contents()).toEqual(first)
  const file = join(copy, 'checked.yaml')
  await writeFile(
    file,
    (await readFile(join(copy, 'aigw.yaml'), 'utf8')).replaceAll('/run/secrets', join(copy, 'secrets')),
  )
  const env = { PATH: process.env.PATH, HOME: scratch, AIGW_MASTER_KEY_FILE: join(copy, 'secrets/master-key') }
  const daemon = join(inject('builtProject'), 'bin/aigwd.js')
  await run(process.execPath, [daemon, '--config', file, '--check'], { env })
})
