import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { copyFile, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect } from 'vitest'
import type { Vector } from '../daemon/webhooks/signature-vectors.ts'

/** A vector whose secrets may be undefined, like missing variables, or one text instead of a list. */
export type Tried = Omit<Vector, 'secrets'> & { secrets: (string | undefined)[] | string }

const run = promisify(execFile)
const RECEIVERS = join(import.meta.dirname, '../../docs/receivers')
const DRIVERS = join(import.meta.dirname, 'drivers')

/** The test setup for the verifier of one language. */
export type Language = {
  name: string
  /** The required programs. */
  needs: string[]
  /** Whether it accepts NaN as a number and a text as a list. The types of other languages prevent both. */
  isLoose: boolean
  /** Runs these vectors and returns the results in order. `dir` is an empty directory for it alone. */
  answers(vectors: readonly Tried[], dir: string): Promise<boolean[]>
}

/** Copies verifier and driver into one directory, builds them, and passes all vectors to one process. */
const driven = (
  name: string,
  needs: string[],
  files: { verifier: string; driver: string; as?: string },
  [command, ...args]: [string, ...string[]],
  prepare: (dir: string) => Promise<unknown> = async () => {},
): Language => ({
  name,
  needs,
  isLoose: ['node', 'python', 'ruby'].includes(name),
  async answers(vectors, dir) {
    const verifier = join(dir, files.as ?? files.verifier)
    await mkdir(join(verifier, '..'), { recursive: true })
    await copyFile(join(RECEIVERS, name, files.verifier), verifier)
    await copyFile(join(DRIVERS, files.driver), join(dir, files.driver))
    await prepare(dir)
    const stdout = execFileSync(command, args, { cwd: dir, input: vectors.map(toLine).join(''), encoding: 'utf8' })
    return stdout
      .trim()
      .split('\n')
      .map((line) => line === '1')
  },
})

const base64 = (text: string | Buffer): string => Buffer.from(text).toString('base64')

const optional = (text: string | null | undefined): string => (text === null || text === undefined ? '-' : base64(text))

function toLine({ body, header, secrets, tolerance, now }: Tried): string {
  const given = typeof secrets === 'string' ? `=${base64(secrets)}` : secrets.map(optional).join(',')
  return `${[base64(body), optional(header), given, tolerance, now].join('\t')}\n`
}

/** One process per vector, so the largest bodies are excluded. Its variable cannot contain secrets with white space. */
const shell: Language = {
  name: 'shell',
  needs: ['sh', 'openssl', 'od'],
  isLoose: false,
  async answers(vectors, dir) {
    const answers: boolean[] = []
    for (const { body, header, secrets, tolerance, now } of vectors) {
      const variables = {
        WEBHOOK_SECRET: [secrets].flat().join(' '),
        WEBHOOK_TOLERANCE: String(tolerance),
        WEBHOOK_NOW: String(now),
      }
      const { code, stderr } = await runShell(dir, body, header, variables)
      const no = [secrets].flat().some(Boolean)
        ? { code: 1, stderr: '' }
        : { code: 2, stderr: 'verify.sh: WEBHOOK_SECRET is not set\n' }
      if (code !== 0) expect({ code, stderr }).toEqual(no)
      answers.push(code === 0)
    }
    return answers
  },
}

/** Runs the shell verifier with only these variables. */
export async function runShell(
  dir: string,
  body: Buffer,
  header: string | null,
  variables: Record<string, string>,
): Promise<{ code: unknown; stderr: string }> {
  const file = join(dir, 'body')
  await writeFile(file, body)
  const args = [join(RECEIVERS, 'shell/verify.sh'), file, header ?? '']
  return run('sh', args, { env: { PATH: process.env.PATH, ...variables } }).then(
    ({ stderr }) => ({ code: 0, stderr }),
    ({ code, stderr }: { code: unknown; stderr: string }) => ({ code, stderr }),
  )
}

const CSPROJ = `<Project Sdk="Microsoft.NET.Sdk"><PropertyGroup><OutputType>Exe</OutputType><TargetFramework>net8.0</TargetFramework>
<Nullable>enable</Nullable><RollForward>LatestMajor</RollForward></PropertyGroup></Project>`

export const LANGUAGES: readonly Language[] = [
  driven('node', ['node'], { verifier: 'verify.mjs', driver: 'driver.mjs' }, [process.execPath, 'driver.mjs']),
  driven('python', ['python3'], { verifier: 'verify.py', driver: 'driver.py' }, ['python3', '-B', 'driver.py']),
  driven(
    'go',
    ['go'],
    { verifier: 'verify.go', driver: 'driver.go', as: 'webhook/verify.go' },
    ['go', 'run', '.'],
    (dir) => writeFile(join(dir, 'go.mod'), 'module driver\n\ngo 1.20\n'),
  ),
  driven('php', ['php'], { verifier: 'verify.php', driver: 'driver.php' }, ['php', 'driver.php']),
  driven('ruby', ['ruby'], { verifier: 'verify.rb', driver: 'driver.rb' }, ['ruby', 'driver.rb']),
  driven(
    'java',
    ['java', 'javac'],
    { verifier: 'WebhookVerifier.java', driver: 'Driver.java' },
    ['java', '-cp', '.', 'Driver'],
    (dir) => run('javac', ['-encoding', 'UTF-8', 'WebhookVerifier.java', 'Driver.java'], { cwd: dir }),
  ),
  driven(
    'csharp',
    ['dotnet'],
    { verifier: 'WebhookVerifier.cs', driver: 'Driver.cs' },
    ['dotnet', 'run', '--project', 'driver.csproj'],
    (dir) => writeFile(join(dir, 'driver.csproj'), CSPROJ),
  ),
  shell,
]

/** Whether all programs that a language needs are installed. */
export const isPresent = ({ needs }: Language): boolean =>
  needs.every((command) => spawnSync('sh', ['-c', 'command -v "$0"', command]).status === 0)
