import { access } from 'node:fs/promises'
import { notAGateway } from '../api/http-errors.ts'
import type { CliContext } from '../context.ts'
import { CliError, EXIT, usageError } from '../errors.ts'
import { findAtPath, type View } from '../output/formats.ts'
import { isPlain, type Output } from '../output/output.ts'
import { openSecretFile } from '../output/secret-file.ts'
import { toShellWord } from '../output/shell-word.ts'
import type { Settings } from '../profile/profile.ts'
import { type Creation, checkCreation, createUnlessThere, findExisting } from './creation.ts'
import type { SecretFlags } from './options.ts'
import { toCode } from './resolve.ts'

/** An answer with a secret: what to print of it, and what to say was done. */
type Answer = { item: object; body: object; raw: Uint8Array; done: string }

/**
 * For calls that answer with a secret, shown once: into the file of `--save-to`, which is opened before the call and removed
 * when it fails, else to stdout. There it stands alone, or as `secret` of the resource in a format with names. With a file,
 * stdout is empty unless an output was chosen. Throws a usage error, before any call, for an output that would lose it. A
 * `call` that answers undefined has made nothing.
 */
export async function keepSecret(
  context: CliContext,
  { view, call, ...flags }: SecretFlags & { view: View; call(): Promise<Answer | undefined> },
): Promise<void> {
  const [output, settings] = await Promise.all([context.output(), context.settings()])
  const { saveTo, force } = flags
  const shown = await toSecretView(context, flags, view)
  const file = saveTo === undefined || settings.dryRun ? undefined : await openSecretFile(saveTo, { force })
  const called = async () => {
    const answer = await call()
    return answer && { ...answer, secret: secretIn(answer.body, (await context.api()).baseUrl) }
  }
  const answer = await called().catch(async (error: unknown) => {
    await file?.discard()
    throw error
  })
  if (answer === undefined) return file?.discard()
  const { item, secret, raw, done } = answer
  if (file !== undefined) {
    await file.write(secret)
    await context.note(`${done} Its secret is in ${saveTo} (mode 0600) and cannot be shown again.`)
    return showRest(output, settings, item, shown)
  }
  await context.note(`${done} Its secret cannot be shown again.`)
  return isPlain(settings) ? output.text(`${secret}\n`) : output.one({ ...item, secret }, shown, raw)
}

export type SecretCreation<Item extends object> = Creation<Item> &
  SecretFlags & {
    view: View
    /** What to print of a new one, where that is more than the resource. */
    toShown?: (item: Item, body: object) => object
    /** What to say of a new one. */
    done(item: Item): string
    /** The command that gives an existing one a secret which can be shown. */
    renewal(item: Item): string
  }

/**
 * The same for what is created. With `ifNotExists` it looks first, so that no file is made for what exists, whose secret
 * cannot be shown any more. Throws exit 6 when `--save-to` names a file that is missing then: whoever relies on it would
 * go on without a secret.
 */
export async function createWithSecret<Item extends object>(
  context: CliContext,
  creation: SecretCreation<Item>,
): Promise<void> {
  const { dryRun } = await context.settings()
  const { toShown = (item: Item) => item, done } = creation
  await checkCreation(context, creation, await toSecretView(context, creation, creation.view))
  let existing: Item | undefined
  if (creation.ifNotExists && !dryRun) existing = await findExisting<Item>(context, creation)
  if (existing === undefined) {
    await keepSecret(context, {
      ...creation,
      async call() {
        const created = await createUnlessThere<Item>(context, creation)
        if (created.isNew) {
          const { item, body, raw } = created
          return { item: toShown(item, body), body, raw, done: done(item) }
        }
        existing = created.item
        return undefined
      },
    })
  }
  if (existing !== undefined) await showExisting(context, creation, existing)
}

async function showExisting<Item extends object>(
  context: CliContext,
  creation: SecretCreation<Item>,
  item: Item,
): Promise<void> {
  const { saveTo, noun, name, renewal } = creation
  const [output, settings] = await Promise.all([context.output(), context.settings()])
  const shown = await toSecretView(context, creation, creation.view)
  if (saveTo !== undefined) {
    if (await isThere(saveTo)) return showRest(output, settings, item, shown)
    throw new CliError(
      EXIT.conflict,
      `${noun} '${name}' exists, but ${saveTo} does not, and its secret is shown only once`,
      {
        code: `${toCode(noun)}_SECRET_MISSING`,
        hints: [`A new secret:  ${renewal(item)} --save-to ${toShellWord(saveTo)}`],
      },
    )
  }
  await context.note(`note: its secret was shown when it was new; for a new one:  ${renewal(item)}`)
  // Here stdout is for the secret alone, and a script would take anything else for one.
  if (!isPlain(settings)) await output.one({ ...item, secret: null }, shown)
}

/** The resource is printed only if the user chose an output. Otherwise stdout stays empty, because the secret is in the file. */
async function showRest(output: Output, { format, field, fields }: Settings, item: object, view: View): Promise<void> {
  if (format !== undefined || field !== undefined || fields.length > 0) await output.one(item, view)
}

/** What the result is shown in. Throws a usage error for an output that would lose the secret, or that it does not have. */
async function toSecretView(context: CliContext, flags: SecretFlags, view: View): Promise<View> {
  const [output, settings] = await Promise.all([context.output(), context.settings()])
  assertKept(settings, flags)
  const members = view.members && [...view.members, 'secret']
  const shown = flags.saveTo === undefined && members !== undefined ? { ...view, members } : view
  if (!settings.dryRun) output.assertShowable(shown)
  return shown
}

function secretIn(body: object, baseUrl: string): string {
  const secret = findAtPath(body, 'secret')
  if (typeof secret === 'string') return secret
  throw notAGateway(EXIT.error, `${baseUrl} did not answer with a secret`, {})
}

type Shape = Pick<Settings, 'raw' | 'field' | 'fields' | 'format' | 'dryRun'>

function assertKept({ raw, field, fields, format, dryRun }: Shape, { saveTo, force }: SecretFlags): void {
  if (saveTo !== undefined) {
    if (raw) throw usageError('--raw would print the secret that --save-to is to keep', ['Leave one of them out.'])
    return
  }
  if (force) throw usageError('--force is of use only with --save-to')
  const isShown =
    dryRun ||
    raw ||
    (field === undefined ? format !== 'id' && (fields.length === 0 || fields.includes('secret')) : field === 'secret')
  if (!isShown) {
    throw usageError('this output leaves out the secret, which is shown only once', ['Keep it:  --save-to FILE'])
  }
}

const isThere = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )
