/** Reads and changes configuration files. Comments stay, and an invalid change is never written. */
import { Command } from 'commander'
import { withoutSecretSettings } from '../../api/secret-members.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT, usageError } from '../../errors.ts'
import { columns, flexible } from '../../output/formats.ts'
import { writeText } from '../../profile/config-files.ts'
import { openTarget, parseYaml, type Target } from './target.ts'

type Flags = { gatewayFile?: string }

const KEY = "the setting, such as output, chat.model or profiles.work.base_url; '\\.' is a dot inside a name"

const VIEW = { columns: columns({ KEY: 'key', VALUE: flexible('value') }), idPath: 'key', none: 'No settings yet.' }
const SOURCES = {
  columns: columns({ SOURCE: 'source', VALUE: flexible('value'), USED: 'used' }),
  members: ['source', 'value', 'used'],
}

const command = (name: string, description: string): Command =>
  new Command(name)
    .description(description)
    .option(
      '--gateway-file <path>',
      'the configuration file of a gateway instead of your own, e.g. /etc/aigw/aigw.yaml',
    )

export const commands = {
  get: (context: CliContext) =>
    command('get', 'Print the value of a setting. Exit 3 if the file does not set it.')
      .argument('<key>', KEY)
      .action((key: string, flags: Flags) => get(context, key, flags)),
  set: (context: CliContext) =>
    command('set', 'Set a value. The file is validated first, and its comments stay.')
      .argument('<key>', KEY)
      .argument('<value>', 'the value, as YAML: 10s, 3, true, or [a, b]')
      .addHelpText(
        'after',
        '\nExamples:\n  aigw config set chat.model openai/gpt-4o\n  aigw config set log.level debug --gateway-file /etc/aigw/aigw.yaml',
      )
      .action((key: string, value: string, flags: Flags) => change(context, key, value, flags)),
  unset: (context: CliContext) =>
    command('unset', 'Remove a setting, so that its default applies.')
      .argument('<key>', KEY)
      .action((key: string, flags: Flags) => change(context, key, undefined, flags)),
  list: (context: CliContext) =>
    command('list', 'List the settings of the file. Secrets of a gateway are masked.').action((flags: Flags) =>
      list(context, flags),
    ),
  edit: (context: CliContext) =>
    command('edit', 'Edit the file in $VISUAL or $EDITOR. An invalid file is not saved.').action((flags: Flags) =>
      edit(context, flags),
    ),
  explain: (context: CliContext) =>
    command('explain', 'Show every source of a setting in the order of precedence, and which one is used.')
      .argument('<key>', `${KEY}; also base_url and api_key of the profile`)
      .action((key: string, flags: Flags) => explain(context, key, flags)),
}

/** Splits `chat.model` into its names. A backslash before a dot makes the dot a part of the name. */
function toPath(key: string): string[] {
  const names = key.split(/(?<!\\)\./).map((name) => name.replaceAll('\\.', '.'))
  if (names.some((name) => name === '')) throw usageError(`'${key}' is not a setting`, ['Write it like chat.model.'])
  return names
}

const open = async (context: CliContext, { gatewayFile }: Flags) => {
  const target = openTarget(context, gatewayFile)
  return { target, document: await parseYaml(await target.read(), target.path) }
}

const valueAt = (content: unknown, path: string[]): unknown =>
  path.reduce<unknown>(
    (at, name) =>
      typeof at === 'object' && at !== null && Object.hasOwn(at, name) ? Reflect.get(at, name) : undefined,
    content,
  )

const asText = async (value: unknown): Promise<string> =>
  typeof value === 'object' && value !== null ? (await import('yaml')).stringify(value).trimEnd() : String(value ?? '')

async function get(context: CliContext, key: string, flags: Flags): Promise<void> {
  const path = toPath(key)
  const { target, document } = await open(context, flags)
  const value = valueAt(document.toJS(), path)
  if (value === undefined) {
    throw new CliError(EXIT.notFound, `${target.path} does not set '${key}'`, {
      code: 'SETTING_NOT_FOUND',
      hints: ['To list the settings:  aigw config list', `Where it comes from:   aigw config explain ${key}`],
    })
  }
  const output = await context.output()
  await output.textOrOne(`${await asText(value)}\n`, { key, value }, { ...VIEW, members: ['key', 'value'] })
}

/** Sets or removes one value. A text that YAML reads as another type is tried as text too, such as a model named `5`. */
async function change(context: CliContext, key: string, text: string | undefined, flags: Flags): Promise<void> {
  const path = toPath(key)
  const { target, document } = await open(context, flags)
  if (text === undefined) {
    if (!document.hasIn(path)) return context.note(`note: ${target.path} does not set '${key}'; nothing was changed`)
    document.deleteIn(path)
    return save(context, target, document.toString({ lineWidth: 0 }), `Removed ${key} from ${target.path}.`)
  }
  const { parse } = await import('yaml')
  const parsed: unknown = parseOrText(parse, text)
  const withValue = (value: unknown): string => {
    const changed = document.clone()
    try {
      changed.setIn(path, value)
    } catch {
      throw usageError(`'${key}' is inside a setting that is not a map of names to values`)
    }
    return changed.toString({ lineWidth: 0 })
  }
  const done = `Set ${key} in ${target.path}.`
  try {
    await save(context, target, withValue(parsed), done)
  } catch (error) {
    if (parsed === text || target.isGateway) throw error
    await save(context, target, withValue(text), done).catch(() => {
      throw error
    })
  }
}

function parseOrText(parse: (text: string) => unknown, text: string): unknown {
  try {
    return parse(text) ?? text
  } catch {
    return text
  }
}

async function save(context: CliContext, target: Target, text: string, done: string): Promise<void> {
  if (context.globals.dryRun === true) return showDraft(context, target, text)
  await target.save(text)
  await context.note(done)
  if (target.isGateway) await context.note('note: the gateway uses the change after its next start or reload')
}

/** Validates a text and shows it. Comments of a gateway's file may contain secrets, so they are omitted. */
async function showDraft(context: CliContext, target: Target, text: string): Promise<void> {
  await target.check(text)
  if (!target.isGateway) return context.note(`Would write ${target.path}:\n${text}`, { lines: true })
  const shown = await asText(withoutSecretSettings((await parseYaml(text, target.path)).toJS()))
  await context.note(`Would write ${target.path}, here without comments and secrets:\n${shown}`, { lines: true })
}

/** Yields the leaves of a configuration. A list is one leaf. */
function* leavesOf(value: unknown, at: string[] = []): Generator<{ key: string; value: unknown }> {
  const isMap = typeof value === 'object' && value !== null && !Array.isArray(value)
  if (isMap && Object.keys(value).length > 0) {
    for (const [name, entry] of Object.entries(value)) yield* leavesOf(entry, [...at, name.replaceAll('.', '\\.')])
  } else if (at.length > 0) yield { key: at.join('.'), value }
}

async function list(context: CliContext, flags: Flags): Promise<void> {
  const { document } = await open(context, flags)
  const output = await context.output()
  await output.list([...leavesOf(withoutSecretSettings(document.toJS() ?? {}))], VIEW)
}

async function edit(context: CliContext, { gatewayFile }: Flags): Promise<void> {
  const { io } = context
  if (io.stdin.isTTY !== true && !io.env.VISUAL && !io.env.EDITOR) {
    throw usageError('without a terminal, name an editor in EDITOR', ['In scripts:  aigw config set KEY VALUE'])
  }
  const target = openTarget(context, gatewayFile)
  const before = await target.read()
  const { editText } = await import('../../input/editor.ts')
  const text = `${await editText(before, io.env, 'config.yaml')}\n`
  if (text.trim() === before.trim()) return context.note('Nothing was changed.')
  if (context.globals.dryRun === true) return showDraft(context, target, text)
  await target.save(text).catch(async (error: unknown) => {
    const kept = `${target.path}.edited`
    await writeText(kept, text, 0o600)
    if (error instanceof CliError) throw usageError(error.message, [...error.hints, `Your text is in ${kept}.`])
    throw error
  })
  await context.note(`Saved ${target.path}.`)
}

async function explain(context: CliContext, key: string, flags: Flags): Promise<void> {
  const path = toPath(key)
  const { gatewaySourcesOf, sourcesOf } = await import('./sources.ts')
  const output = await context.output()
  if (flags.gatewayFile === undefined) return output.list(await sourcesOf(context, key), SOURCES)
  const { target, document } = await open(context, flags)
  const value = withoutSecretSettings(valueAt(document.toJS(), path), path)
  const plain = typeof value === 'object' && value !== null ? JSON.stringify(value) : value
  await output.list(gatewaySourcesOf(context, key, target.path, plain), SOURCES)
}
