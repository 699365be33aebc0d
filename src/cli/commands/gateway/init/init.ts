/** Writes the configuration of a new gateway on this machine. */
import { chmod, mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { Command } from 'commander'
import type { CliContext } from '../../../context.ts'
import { CliError, EXIT, failedToRead, unwritable, usageError } from '../../../errors.ts'
import { mayPrompt } from '../../../input/prompt.ts'
import { readStdin } from '../../../io.ts'
import { columns } from '../../../output/formats.ts'
import { systemUnit } from '../../service/unit.ts'
import { findConfigFaults, secretsFolder } from '../check-config.ts'
import { defaultDataDir } from '../doctor/machine.ts'
import { type Answers, DEFAULT_LISTEN, type Plan, type PlannedFile, planFiles } from './plan.ts'
import { askAnswers } from './questions.ts'

const SECRET_BYTES = 16_384

const VIEW = {
  columns: columns({ CONFIGURATION: 'config', SECRETS: 'secrets', UNIT: 'unit', NEXT: 'next' }),
  idPath: 'config',
  members: ['config', 'secrets', 'unit', 'next'],
}

export type InitFlags = {
  config?: string
  provider?: string
  providerUrl?: string
  providerKeyFile?: string
  listen?: string
  dataDir?: string
  databaseUrlFile?: string
  systemd?: boolean
  unitFile?: string
  force: boolean
}

export function toCommand(context: CliContext): Command {
  return new Command('init')
    .description(
      'Write the configuration of a new gateway on this machine, and print the next two commands.\n' +
        'Asks on a terminal if no flag is given. Secrets go to files of their own that only you can read.',
    )
    .option(
      '--config <file>',
      'the file to write; default /etc/aigw/aigw.yaml for root, otherwise ~/.config/aigw/aigw.yaml',
    )
    .option('--provider <name>', 'provider of models, such as openai, anthropic or ollama')
    .option('--provider-url <url>', 'address of the provider, if it is not well known')
    .option('--provider-key-file <path>', "read the provider's key from a file, '-' for stdin")
    .option('--listen <host:port>', `address to listen on (default ${DEFAULT_LISTEN})`)
    .option('--data-dir <dir>', 'directory of the store')
    .option('--database-url-file <path>', "read the URL of a PostgreSQL database from a file, '-' for stdin")
    .option('--systemd', 'also write a systemd unit')
    .option('--unit-file <path>', 'the unit to write with --systemd')
    .option('--force', 'replace existing files', false)
    .addHelpText(
      'after',
      '\nExamples:\n  aigw init\n  aigw init --provider openai --provider-key-file key.txt\n' +
        '  sudo aigw init --systemd --provider openai --provider-key-file - < key.txt',
    )
    .action((flags: InitFlags) => init(context, flags))
}

/** The answers so far. A missing one means the default. */
type Given = { [Name in keyof Answers]?: Answers[Name] | undefined } & { systemd?: boolean | undefined }

async function init(context: CliContext, flags: InitFlags): Promise<void> {
  const { io } = context
  const [settings, output] = await Promise.all([context.settings(), context.output()])
  output.assertShowable(VIEW)
  const answers = await toAnswers(context, flags)
  const unitText = answers.unit === undefined ? '' : await systemUnit({ user: !answers.isRoot })
  // Under systemd, StateDirectory= is the data directory.
  const systemDir = answers.unit !== undefined && answers.isRoot ? '/var/lib/aigw' : undefined
  const plan = planFiles(answers, { unitText, adminKeyDir: systemDir ?? defaultDataDir(io.env) })
  const files = [...plan.secrets, ...(plan.unit === undefined ? [] : [plan.unit])]
  if (!flags.force) for (const { path } of [plan.config, ...files]) await assertNew(path)
  if (settings.dryRun) return context.note(`Would write ${plan.config.path}:\n${plan.config.text}`, { lines: true })
  await writePlan(plan, io)
  for (const { path, isSecret } of [plan.config, ...files]) {
    await context.note(`Created ${path}${isSecret ? ' (only you can read it)' : ''}`)
  }
  if (answers.unit !== undefined && answers.isRoot) await noteClosedFolder(context, dirname(plan.config.path))
  const { next } = plan
  const row = {
    config: plan.config.path,
    secrets: plan.secrets.map(({ path }) => path),
    unit: plan.unit?.path ?? null,
    next,
  }
  await output.textOrOne(`Next:\n${next.map((command) => `  ${command}\n`).join('')}`, row, VIEW)
}

async function toAnswers(context: CliContext, flags: InitFlags): Promise<Answers> {
  const { io } = context
  const isRoot = process.getuid?.() === 0
  const asks =
    mayPrompt(await context.settings(), io) && Object.keys(flags).every((name) => ['config', 'force'].includes(name))
  const given: Given = asks ? await askAnswers(io) : await fromFlags(context, flags)
  const folder = isRoot ? '/etc/aigw' : join(ownFolder(io.env), 'aigw')
  const systemd = given.systemd === true || flags.unitFile !== undefined
  const units = isRoot ? '/etc/systemd/system' : join(ownFolder(io.env), 'systemd/user')
  return {
    config: resolve(flags.config ?? join(folder, 'aigw.yaml')),
    provider: given.provider,
    providerUrl: given.providerUrl,
    providerKey: given.providerKey,
    listen: given.listen ?? DEFAULT_LISTEN,
    dataDir: given.dataDir,
    databaseUrl: given.databaseUrl,
    unit: systemd ? resolve(flags.unitFile ?? join(units, 'aigw.service')) : undefined,
    isRoot,
  }
}

const ownFolder = (env: CliContext['io']['env']): string =>
  env.XDG_CONFIG_HOME?.startsWith('/') ? env.XDG_CONFIG_HOME : join(env.HOME ?? '/', '.config')

async function fromFlags(context: CliContext, flags: InitFlags): Promise<Given> {
  const { provider, providerUrl, providerKeyFile, databaseUrlFile, listen, dataDir, systemd } = flags
  if (provider === undefined && (providerUrl ?? providerKeyFile) !== undefined) {
    throw usageError('--provider-url and --provider-key-file need --provider')
  }
  if (providerKeyFile === '-' && databaseUrlFile === '-') {
    throw usageError('the key and the database URL cannot both come from stdin')
  }
  const read = async (path: string | undefined, what: string): Promise<string | undefined> => {
    if (path === undefined) return undefined
    const text =
      path === '-'
        ? (await readStdin(context.io, SECRET_BYTES, what)).toString()
        : await readFile(path, 'utf8').catch(failedToRead(path))
    if (text.trim() === '') throw usageError(`${path === '-' ? 'stdin' : path} contains no text for ${what}`)
    return text.trim()
  }
  return {
    provider,
    providerUrl,
    providerKey: await read(providerKeyFile, "the provider's key"),
    listen,
    dataDir: dataDir === undefined ? undefined : resolve(dataDir),
    databaseUrl: await read(databaseUrlFile, 'the database URL'),
    systemd,
  }
}

/** The service runs as a user of its own. A folder from before may be closed to that user. */
async function noteClosedFolder(context: CliContext, folder: string): Promise<void> {
  if (((await stat(folder)).mode & 0o001) === 0) {
    await context.note(`warning: the service cannot read ${folder}; open it with: chmod 755 ${folder}`)
  }
}

async function assertNew(path: string): Promise<void> {
  if ((await stat(path).catch(() => undefined)) === undefined) return
  throw new CliError(EXIT.conflict, `${path} already exists`, {
    code: 'EXISTS',
    hints: [
      'Replace it:        aigw init --force',
      `Change one value:  aigw config set KEY VALUE --gateway-file ${path}`,
    ],
  })
}

/**
 * Writes the secrets, validates the configuration with the daemon's own check, and then writes the other files. If the
 * configuration is invalid, removes what it wrote.
 */
async function writePlan(plan: Plan, io: CliContext['io']): Promise<void> {
  const draft: PlannedFile = { ...plan.config, path: join(dirname(plan.config.path), `.aigw.${process.pid}.yaml`) }
  const drafts = plan.secrets.map((file) => ({ ...file, path: `${file.path}.${process.pid}.new` }))
  // The check reads the drafts of the secrets, so an existing secret stays until the check has passed.
  const text = plan.secrets.reduce(
    (config, { path }) =>
      config.replaceAll(path.slice(dirname(path).length + 1), (name) => `${name}.${process.pid}.new`),
    draft.text,
  )
  const folder = secretsFolder(plan.config.path)
  try {
    // Before the secrets: `mkdir` gives the folders that it creates on the way the mode of the last one. The service
    // runs as another user, which must be able to read the configuration.
    await makeFolder(dirname(draft.path), 0o755)
    for (const file of drafts) await writeNew(file, 0o700)
    await writeNew({ ...draft, text }, 0o755)
    const env = { ...io.env, CREDENTIALS_DIRECTORY: folder }
    const faults = await findConfigFaults(draft.path, { env, signal: io.signal })
    if (faults.length > 0) {
      throw usageError(
        'the configuration would be invalid; nothing was written',
        faults.map((fault) => fault.replaceAll(draft.path, plan.config.path)),
      )
    }
    for (const [at, { path }] of drafts.entries()) await rename(path, plan.secrets[at]?.path ?? path)
    await rm(draft.path)
    await writeNew(draft, 0o755)
    await rename(draft.path, plan.config.path)
    if (plan.unit !== undefined) {
      const unit = { ...plan.unit, path: `${plan.unit.path}.${process.pid}.new` }
      await writeNew(unit, 0o755)
      await rename(unit.path, plan.unit.path)
    }
  } finally {
    for (const { path } of [draft, ...drafts]) await rm(path, { force: true })
  }
}

/** Creates a folder with this mode, whatever the umask is. An existing folder keeps its mode. */
async function makeFolder(path: string, mode: number): Promise<void> {
  const created = await mkdir(path, { recursive: true, mode }).catch((error: unknown) => {
    throw unwritable(path, error)
  })
  if (created !== undefined) await chmod(path, mode)
}

async function writeNew({ path, text, mode }: PlannedFile, folderMode: number): Promise<void> {
  try {
    await makeFolder(dirname(path), folderMode)
    const file = await open(path, 'wx', mode)
    try {
      // The umask restricts the mode that `open` sets.
      await file.chmod(mode)
      await file.writeFile(text)
      await file.sync()
    } finally {
      await file.close()
    }
  } catch (error) {
    throw unwritable(path, error)
  }
}
