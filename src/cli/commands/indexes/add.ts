/** Adds files, folders, web pages and stdin to a knowledge base. */
import { Command } from 'commander'
import type { z } from 'zod'
import { TRAIN_FILE_BYTES } from '../../../shared/spec-limits.ts'
import type { TrainResponse } from '../../../shared/wire/indexes.ts'
import { parseBody } from '../../api/http-errors.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT, usageError } from '../../errors.ts'
import { readStdin } from '../../io.ts'
import { columns, findAtPath, flexible } from '../../output/formats.ts'
import { createProgress } from '../../output/progress.ts'
import {
  ACCEPTED,
  collectDocuments,
  type Document,
  distinctDocuments,
  type Skipped,
  toBatches,
  typeOf,
} from './documents.ts'
import { toMultipart } from './multipart.ts'
import { getIndexName, indexPath } from './name.ts'
import { FETCH_TIMEOUT_MS, fetchDocument, isUrl } from './web-document.ts'

/** This timeout exceeds the default, because the gateway responds only after it has indexed the documents. */
const TRAIN_TIMEOUT_MS = 600_000
const SKIPPED_SHOWN = 10

const VIEW = {
  columns: columns({ NAME: 'name', STATUS: 'status', PASSAGES: 'chunks', ERROR: flexible('error') }),
  idPath: 'name',
  members: ['name', 'status', 'chunks', 'error'],
  none: 'Nothing was added.',
}

export function toCommand(context: CliContext): Command {
  return new Command('add')
    .description(`Add files to a knowledge base; folders are read in full. ${ACCEPTED}`)
    .argument('<index>', 'knowledge base')
    .argument('<path...>', "files, folders and addresses (http, https), '-' for stdin")
    .option('--name <name>', 'name of the document on stdin', 'stdin.md')
    .option('--strict', 'send nothing if a file in a folder would be skipped', false)
    .addHelpText(
      'after',
      '\nExit code 1 if some documents could not be added. Adding the same document again changes nothing.',
    )
    .action((index: string, paths: string[], flags: Flags) => addDocuments(context, getIndexName(index), paths, flags))
}

type Flags = { name: string; strict: boolean }
type Outcome = z.infer<typeof TrainResponse>['results']['documents'][number]

/** Sends all documents and prints the result of each. Throws an error with exit code 1 if a document failed. */
async function addDocuments(context: CliContext, index: string, paths: string[], flags: Flags): Promise<void> {
  const { name: stdinName, strict } = flags
  const { io } = context
  const [output, settings] = await Promise.all([context.output(), context.settings()])
  output.assertShowable(VIEW)
  const { documents, skipped } = await collect(context, paths, stdinName)
  await noteSkipped(context, skipped)
  if (documents.length === 0 || (strict && skipped.length > 0)) {
    throw usageError(documents.length === 0 ? 'there is nothing to add' : 'some files would be skipped (--strict)', [
      ACCEPTED,
    ])
  }

  const progress = createProgress(io, settings)
  const added: Outcome[] = []
  const withheldFrom = new Set<string>()
  try {
    for (const batch of toBatches(documents)) {
      progress.show(`Adding ${added.length + batch.length} of ${documents.length} documents to ${index}`)
      const { outcomes, raw, skippedModels = [] } = await train(context, index, batch)
      for (const model of skippedModels) withheldFrom.add(model)
      added.push(...outcomes)
      if (settings.raw) await output.list(added, VIEW, raw)
    }
  } finally {
    progress.end()
    if (!settings.raw && added.length > 0) await output.list(added, VIEW)
    if (added.length > 0) await context.note(summary(index, added, skipped))
    if (withheldFrom.size > 0) await context.note(`note: ${forbidden([...withheldFrom])}`)
  }
  const failed = added.filter(({ status }) => status === 'failed').length
  if (failed > 0) {
    throw new CliError(EXIT.error, `${failed} of ${added.length} documents could not be added`, {
      code: 'DOCUMENTS_FAILED',
      hints: ['The list above states the reasons. The other documents were added.'],
    })
  }
}

/** Finds the documents of all arguments and removes duplicates. Downloads web addresses. */
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

type Trained = { outcomes: Outcome[]; raw: Uint8Array; skippedModels?: readonly string[] | undefined }

const forbidden = (models: readonly string[]): string =>
  `the policy forbids ${models.join(', ')}, so only keyword search finds these documents`

async function train(context: CliContext, index: string, batch: Document[]): Promise<Trained> {
  const [api, { timeoutFlagMs }] = await Promise.all([context.api(), context.settings()])
  try {
    const { body, raw } = await api.send<z.infer<typeof TrainResponse>>({
      method: 'POST',
      path: indexPath(index, 'train'),
      upload: toMultipart(batch),
      timeoutMs: timeoutFlagMs ?? TRAIN_TIMEOUT_MS,
      // A retry is safe: the gateway recognises a stored document by its content.
      repeatable: true,
    })
    return { outcomes: body.results.documents, raw, skippedModels: body.results.skipped_models }
  } catch (error) {
    const mayList = error instanceof CliError && (error.httpStatus === 400 || error.httpStatus === 413)
    const outcomes = mayList ? outcomesIn(error.answer) : undefined
    if (outcomes === undefined) throw error
    return outcomes
  }
}

/** If every document is unreadable, the gateway sends an error response that contains the result of each document. */
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
