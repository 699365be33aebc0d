import { Command } from 'commander'
import type { z } from 'zod'
import { TRAIN_FILE_BYTES } from '../../../shared/spec-limits.ts'
import type { TrainResponse } from '../../../shared/wire/indexes.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT, usageError } from '../../errors.ts'
import { createProgress } from '../../progress.ts'
import { readStdin } from '../../stdio.ts'
import { collectDocuments, type Document, type Skipped, toBatches } from './documents.ts'
import { toMultipart } from './multipart.ts'

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
  none: 'Nothing was added.',
}

export function addCommand(context: CliContext, run = addDocuments): Command {
  return new Command('add')
    .description('Add text and Markdown files (.txt .md .markdown) to a knowledge base; folders are read in full.')
    .argument('<index>', 'knowledge base')
    .argument('<path...>', "files and folders, '-' for stdin")
    .option('--name <name>', 'name of what comes on stdin', 'stdin.md')
    .option('--strict', 'send nothing when a file would be skipped', false)
    .addHelpText(
      'after',
      '\nExit code 1 when some documents could not be added; adding the same again changes nothing.',
    )
    .action((index: string, paths: string[], flags: { name: string; strict: boolean }) =>
      run(context, { index, paths, stdinName: flags.name, strict: flags.strict }),
    )
}

type Results = z.infer<typeof TrainResponse>['results']

/** Sends every document, prints what became of each, and throws exit 1 when some failed. */
export async function addDocuments(context: CliContext, { index, paths, stdinName, strict }: AddInput): Promise<void> {
  const { io } = context
  const [api, output, settings] = await Promise.all([context.api(), context.output(), context.settings()])
  const { documents, skipped } = await collectDocuments(paths.filter((path) => path !== '-'))
  if (paths.includes('-')) documents.push(await readDocument(context, stdinName))
  await noteSkipped(context, skipped)
  if (documents.length === 0 || (strict && skipped.length > 0)) {
    throw usageError(documents.length === 0 ? 'there is nothing to add' : 'some files would be skipped (--strict)', [
      'Text and Markdown are taken:  .txt .md .markdown',
    ])
  }

  const progress = createProgress(io, settings)
  const added: Results['documents'] = []
  try {
    for (const batch of toBatches(documents)) {
      progress.show(`Adding ${added.length + batch.length} of ${documents.length} documents to ${index}`)
      const { body, raw } = await api.send<z.infer<typeof TrainResponse>>({
        method: 'POST',
        path: `indexes/${encodeURIComponent(index)}/train`,
        upload: toMultipart(batch),
        timeoutMs: settings.timeoutMs ?? TRAIN_TIMEOUT_MS,
        // The gateway recognises a document it has already, by its content.
        repeatable: true,
      })
      added.push(...body.results.documents)
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

async function readDocument({ io }: CliContext, name: string): Promise<Document> {
  const bytes = await readStdin(io, TRAIN_FILE_BYTES, 'the document')
  if (bytes.length === 0) throw usageError('stdin is empty')
  const type = name.endsWith('.txt') ? 'text/plain' : 'text/markdown'
  return {
    name,
    type,
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

function summary(index: string, added: Results['documents'], skipped: Skipped[]): string {
  const count = (status: string) => added.filter((document) => document.status === status).length
  const passages = added.reduce((sum, document) => sum + (document.status === 'indexed' ? document.chunks : 0), 0)
  const parts = [`${count('indexed')} added (${passages} passages)`]
  if (count('unchanged') > 0) parts.push(`${count('unchanged')} unchanged`)
  if (count('failed') > 0) parts.push(`${count('failed')} failed`)
  if (skipped.length > 0) parts.push(`${skipped.length} skipped`)
  return `${index}: ${parts.join(', ')}.`
}
