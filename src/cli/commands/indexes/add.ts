import { Command } from 'commander'
import type { z } from 'zod'
import { TRAIN_FILE_BYTES } from '../../../shared/spec-limits.ts'
import type { TrainResponse } from '../../../shared/wire/indexes.ts'
import { parseBody } from '../../api/http-errors.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT, usageError } from '../../errors.ts'
import { readStdin } from '../../io.ts'
import { findAtPath } from '../../output/formats.ts'
import { createProgress } from '../../output/progress.ts'
import {
  collectDocuments,
  type Document,
  distinctDocuments,
  type Skipped,
  TAKEN,
  toBatches,
  typeOf,
} from './documents.ts'
import { toMultipart } from './multipart.ts'
import { getIndexName, indexPath } from './name.ts'
import { FETCH_TIMEOUT_MS, fetchDocument, isUrl } from './web-document.ts'

export type AddInput = { index: string; paths: string[]; stdinName: string; strict: boolean }

/** Indexing is part of the answer, so it takes longer than other calls. */
const TRAIN_TIMEOUT_MS = 600_000
const SKIPPED_SHOWN = 10

const VIEW = {
  columns: [
    { path: 'name' },
    { path: 'status' },
    { path: 'chunks', title: 'PASSAGES' },
    { path: 'error', flexible: true },
  ],
  idPath: 'name',
  members: ['name', 'status', 'chunks', 'error'],
  none: 'Nothing was added.',
}

export function toCommand(context: CliContext, run = addDocuments): Command {
  return new Command('add')
    .description(`Add files to a knowledge base; folders are read in full. ${TAKEN}`)
    .argument('<index>', 'knowledge base')
    .argument('<path...>', "files, folders and addresses (http, https), '-' for stdin")
    .option('--name <name>', 'name of what comes on stdin', 'stdin.md')
    .option('--strict', 'send nothing when something in a folder would be skipped', false)
    .addHelpText(
      'after',
      '\nExit code 1 when some documents could not be added; adding the same again changes nothing.',
    )
    .action((index: string, paths: string[], flags: { name: string; strict: boolean }) =>
      run(context, { index: getIndexName(index), paths, stdinName: flags.name, strict: flags.strict }),
    )
}

type Outcome = z.infer<typeof TrainResponse>['results']['documents'][number]

/** Sends every document, prints what became of each, and throws exit 1 when some failed. */
export async function addDocuments(context: CliContext, { index, paths, stdinName, strict }: AddInput): Promise<void> {
  const { io } = context
  const [output, settings] = await Promise.all([context.output(), context.settings()])
  output.assertShowable(VIEW)
  const { documents, skipped } = await collect(context, paths, stdinName)
  await noteSkipped(context, skipped)
  if (documents.length === 0 || (strict && skipped.length > 0)) {
    throw usageError(documents.length === 0 ? 'there is nothing to add' : 'some files would be skipped (--strict)', [
      TAKEN,
    ])
  }

  const progress = createProgress(io, settings)
  const added: Outcome[] = []
  try {
    for (const batch of toBatches(documents)) {
      progress.show(`Adding ${added.length + batch.length} of ${documents.length} documents to ${index}`)
      const { outcomes, raw } = await train(context, index, batch)
      added.push(...outcomes)
      if (settings.raw) await output.list(added, VIEW, raw)
    }
  } finally {
    progress.end()
    if (!settings.raw && added.length > 0) await output.list(added, VIEW)
    if (added.length > 0) await context.note(summary(index, added, skipped))
  }
  const failed = added.filter(({ status }) => status === 'failed').length
  if (failed > 0) {
    throw new CliError(EXIT.error, `${failed} of ${added.length} documents could not be added`, {
      code: 'DOCUMENTS_FAILED',
      hints: ['The list above says why; the others are in the index.'],
    })
  }
}

/** All documents that the arguments name, addresses fetched, each once. */
async function collect(
  context: CliContext,
  paths: readonly string[],
  stdinName: string,
): Promise<{ documents: Document[]; skipped: Skipped[] }> {
  const { io } = context
  const { documents, skipped } = await collectDocuments(paths.filter((path) => path !== '-' && !isUrl(path)))
  if (paths.includes('-')) documents.push(await readDocument(context, stdinName))
  const settings = await context.settings()
  const progress = createProgress(io, settings)
  try {
    for (const address of paths.filter(isUrl)) {
      progress.show(`Fetching ${address}`)
      documents.push(await fetchDocument(address, { io, timeoutMs: settings.timeoutFlagMs ?? FETCH_TIMEOUT_MS }))
    }
  } finally {
    progress.end()
  }
  return { documents: distinctDocuments(documents), skipped }
}

async function train(context: CliContext, index: string, batch: Document[]) {
  const [api, { timeoutFlagMs }] = await Promise.all([context.api(), context.settings()])
  try {
    const { body, raw } = await api.send<z.infer<typeof TrainResponse>>({
      method: 'POST',
      path: indexPath(index, 'train'),
      upload: toMultipart(batch),
      timeoutMs: timeoutFlagMs ?? TRAIN_TIMEOUT_MS,
      // The gateway recognises a document it has already, by its content.
      repeatable: true,
    })
    return { outcomes: body.results.documents, raw }
  } catch (error) {
    const mayList = error instanceof CliError && (error.httpStatus === 400 || error.httpStatus === 413)
    const outcomes = mayList ? outcomesIn(error.answer) : undefined
    if (outcomes === undefined) throw error
    return outcomes
  }
}

/** The gateway refuses a request of which it could read no document, and says in the refusal what became of each. */
function outcomesIn(raw: Uint8Array = new Uint8Array()): { outcomes: Outcome[]; raw: Uint8Array } | undefined {
  const documents = findAtPath(parseBody(raw), 'documents')
  return Array.isArray(documents) ? { outcomes: documents, raw } : undefined
}

async function readDocument({ io }: CliContext, name: string): Promise<Document> {
  const bytes = await readStdin(io, TRAIN_FILE_BYTES, 'the document')
  if (bytes.length === 0) throw usageError('stdin is empty')
  return {
    name,
    path: 'stdin',
    type: typeOf(name) ?? 'text/markdown',
    size: bytes.length,
    async *read() {
      yield bytes
    },
  }
}

async function noteSkipped(context: CliContext, skipped: Skipped[]): Promise<void> {
  for (const { path, reason } of skipped.slice(0, SKIPPED_SHOWN)) await context.note(`skipped ${path}: ${reason}`)
  const more = skipped.length - SKIPPED_SHOWN
  if (more > 0) await context.note(`skipped ${more} more`)
}

function summary(index: string, added: Outcome[], skipped: Skipped[]): string {
  const count = (status: string) => added.filter((document) => document.status === status).length
  const passages = added.reduce((sum, document) => sum + (document.status === 'indexed' ? document.chunks : 0), 0)
  const parts = [`${count('indexed')} added (${passages} passages)`]
  if (count('unchanged') > 0) parts.push(`${count('unchanged')} unchanged`)
  if (count('failed') > 0) parts.push(`${count('failed')} failed`)
  if (skipped.length > 0) parts.push(`${skipped.length} skipped`)
  return `${index}: ${parts.join(', ')}.`
}
