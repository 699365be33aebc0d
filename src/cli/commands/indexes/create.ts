import { Command } from 'commander'
import type { z } from 'zod'
import type { CreateIndexResponse, Index } from '../../../shared/wire/indexes.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT } from '../../errors.ts'
import { findIndex } from './list.ts'
import { getIndexName } from './name.ts'
import { INDEX_VIEW } from './view.ts'

export type CreateIndexInput = { name: string; description: string | undefined; ifNotExists: boolean; strict: boolean }

export function createCommand(context: CliContext, run = createIndex): Command {
  return new Command('create')
    .description('Create a knowledge base. The name has 3 to 50 of a-z, 0-9 and dashes.')
    .argument('<name>', 'name that chat and search use')
    .option('-d, --description <text>', 'what it holds')
    .option('--if-not-exists', 'succeed when it exists already, and print it', false)
    .option('--strict', 'with --if-not-exists: exit 6 when the existing one differs', false)
    .action((name: string, flags: { description?: string; ifNotExists: boolean; strict: boolean }) =>
      run(context, { name, description: flags.description, ifNotExists: flags.ifNotExists, strict: flags.strict }),
    )
}

/** POST /indexes. Throws exit 6 for a name that is taken, unless `ifNotExists`. */
export async function createIndex(context: CliContext, input: CreateIndexInput): Promise<void> {
  const [api, output] = await Promise.all([context.api(), context.output()])
  output.assertShowable(INDEX_VIEW)
  const { name, description } = input
  const json = { name, ...(description === undefined ? {} : { description }) }
  try {
    const request = { method: 'POST', path: 'indexes', json }
    const { body, raw } = await api.send<z.infer<typeof CreateIndexResponse>>(request)
    await output.one(body.index, INDEX_VIEW, raw)
  } catch (error) {
    if (!(error instanceof CliError) || error.exitCode !== EXIT.conflict) throw error
    if (!input.ifNotExists) throw alreadyExists(getIndexName(name), error)
    const existing = await findIndex(context, name)
    if (existing === undefined) throw error
    await noteDifference(context, existing, input)
    await output.one(existing, INDEX_VIEW)
  }
}

async function noteDifference(
  context: CliContext,
  existing: Index,
  { description, strict }: CreateIndexInput,
): Promise<void> {
  // What was not mentioned does not differ.
  const differs = description !== undefined && description !== existing.description
  if (differs && strict) {
    throw new CliError(EXIT.conflict, `index '${existing.name}' already exists and differs: description`, {
      code: 'INDEX_DIFFERS',
      hints: [`Its description is: ${JSON.stringify(existing.description)}`],
    })
  }
  const suffix = differs ? ' (differs: description)' : ''
  await context.note(`note: index '${existing.name}' already exists; left unchanged${suffix}`)
}

function alreadyExists(name: string, cause: CliError): CliError {
  const { httpStatus, requestId } = cause
  return new CliError(EXIT.conflict, `an index named '${name}' already exists (${cause.code})`, {
    code: cause.code,
    hints: [`Add to it:   aigw indexes add ${name} FILE`, 'In scripts:  add --if-not-exists'],
    httpStatus,
    requestId,
    cause,
  })
}
