// Trains an index with uploads. Each document is published completely, or not at all.
import { hash } from 'node:crypto'
import type { z } from 'zod'
import { TRAIN_FILE_BYTES, UPLOAD_TIMEOUT_MS } from '../../../shared/spec-limits.ts'
import { isoTime } from '../../../shared/time.ts'
import type { TrainResponse } from '../../../shared/wire/indexes.ts'
import type { Db } from '../../platform/db/db.ts'
import { type Activity, type Actor, type ChangeDeps, change } from '../../records/audit/change.ts'
import type { DocumentScreening } from '../../safety/guards/documents.ts'
import { documentActivity } from '../indexes/document-activity.ts'
import { findDocuments } from '../indexes/document-store.ts'
import { requireStillWritable } from '../indexes/index-access.ts'
import type { Merger } from '../indexes/merger.ts'
import type { IndexRow } from '../indexes/store.ts'
import type { Extractor } from './extract/pool.ts'
import { blockedBy, UnreadableDocument } from './extract/unreadable.ts'
import { EXTRACTION_VERSION } from './extract/version.ts'
import { type PackedSegment, SMALL_PASSAGES } from './prepared-document.ts'
import {
  type DocumentToStore,
  publishTogether,
  removeAbandoned,
  removeDocument,
  replaceDocument,
} from './replacement.ts'
import type { Upload } from './upload.ts'

/** The maximum length of a document's name. */
const DOCUMENT_NAME_CHARS = 500

/** The actor who starts the training, and the signal that cancels the training. */
type Training = Actor & { signal: AbortSignal }

export type TrainDeps = ChangeDeps & { extractor: Extractor; merger: Merger }

export type TrainedDocument = z.infer<typeof TrainResponse>['results']['documents'][number]

/**
 * Adds each document to the index, replaces an older document of the same name, and reports the outcome. A document
 * that cannot be read is `failed`. In this case, the older version of the document and the other documents are not
 * affected. Each published document gets an audit entry.
 *
 * If the daemon is killed midway, published documents remain, and unfinished documents stay invisible. If the upload is
 * repeated, published documents are `unchanged`, and only the other documents are processed.
 */
export async function trainIndex(
  uploads: readonly Upload[],
  index: IndexRow,
  screening: DocumentScreening,
  deps: TrainDeps,
  by: Training,
): Promise<TrainedDocument[]> {
  const { db, clock } = deps
  const [{ outcomes, toRead }] = await Promise.all([
    sortOut(uploads, index, { screening, policyId: by.caller.settings.defaultSMLTPPolicy }, db),
    removeAbandoned(db, index.tenant_id, isoTime(clock.now() - ABANDONED_MS)),
  ])
  for (const files of readTogether(toRead)) {
    by.signal.throwIfAborted()
    const { files: read, together } = await deps.extractor.read(
      files,
      { tenantId: index.tenant_id, signal: by.signal },
      screening.rules,
    )
    const small: DocumentToStore[] = []
    for (const [at, { document: prepared, hits }] of read.entries()) {
      const { source, contentHash, position } = files[at] as NewUpload
      screening.add(hits)
      if (prepared instanceof UnreadableDocument) {
        outcomes[position] = { name: source, status: 'failed', chunks: 0, error: prepared.message }
        continue
      }
      const document = { source, contentHash, policyId: by.caller.settings.defaultSMLTPPolicy, prepared }
      if (prepared.passageCount > SMALL_PASSAGES) await storeAlone(document, index, deps, by)
      else small.push(document)
      outcomes[position] = { name: source, status: 'indexed', chunks: prepared.passageCount }
    }
    if (together !== undefined) await storeTogether(small, together, index, deps, by)
  }
  return outcomes
}

/** An upload that must be read, its name in the index, and its position in the training. */
type NewUpload = Upload & { source: string; position: number }

/** Determines the outcomes of documents that need not be read. `outcomes` has gaps for the documents to read. */
async function sortOut(
  uploads: readonly Upload[],
  index: IndexRow,
  { screening, policyId }: { screening: DocumentScreening; policyId: string | null },
  db: Db,
): Promise<{ outcomes: TrainedDocument[]; toRead: NewUpload[] }> {
  const named = uploads.map((upload) => toNamed(upload, screening))
  const sources = named.filter(({ fault }) => fault === undefined).map(({ source }) => source)
  const stored = await findDocuments(db, { tenantId: index.tenant_id, indexId: index.id }, sources)
  const names = new Set<string>()
  const outcomes: TrainedDocument[] = []
  const toRead: NewUpload[] = []
  for (const [position, { fault, ...upload }] of named.entries()) {
    const { source } = upload
    const contentHash = hashOf(upload, screening, policyId)
    const known = stored.get(source)
    const error = fault ?? (names.has(source) ? 'Another document of this request has the same name.' : undefined)
    names.add(source)
    if (error !== undefined) outcomes[position] = { name: source, status: 'failed', chunks: 0, error }
    else if (known?.contentHash !== contentHash) toRead.push({ ...upload, contentHash, position })
    else outcomes[position] = { name: source, status: 'unchanged', chunks: known.passageCount }
  }
  return { outcomes, toRead }
}

/**
 * Returns an upload with its name in the index and, if the upload must be skipped, with the reason. The rules are also
 * applied to the name, unless the document is skipped for another reason.
 */
function toNamed(upload: Upload, screening: DocumentScreening): Upload & { source: string; fault: string | undefined } {
  const name = documentName(upload.name)
  const fault = faultOf(name, upload)
  if (fault !== undefined) return { ...upload, source: name, fault }
  const { text: source, hits, isBlocked } = screening.name(name)
  return { ...upload, source, fault: isBlocked ? blockedBy(hits).message : faultOf(source, upload) }
}

const SMALL_BYTES = 65_536
const BYTES_TOGETHER = 131_072

/**
 * Groups small files, so that they are read and stored together. Each larger file is a separate group. Keeps the order.
 */
function* readTogether(uploads: readonly NewUpload[]): Generator<NewUpload[]> {
  let group: NewUpload[] = []
  let bytes = 0
  for (const upload of uploads) {
    if (group.length > 0 && (upload.bytes > SMALL_BYTES || bytes + upload.bytes > BYTES_TOGETHER)) {
      yield group
      group = []
      bytes = 0
    }
    group.push(upload)
    bytes += upload.bytes
  }
  if (group.length > 0) yield group
}

async function storeAlone(document: DocumentToStore, index: IndexRow, deps: TrainDeps, by: Training): Promise<void> {
  const { db, clock } = deps
  const key = { tenantId: index.tenant_id, indexId: index.id }
  await replaceDocument(
    db,
    key,
    { ...document, now: isoTime(clock.now()) },
    {
      signal: by.signal,
      inPublication: (publish, documentId) =>
        change(deps, by, async ({ tx, caller, record }) => {
          await requireStillWritable(tx, caller, index)
          const replaced = await publish(tx)
          await record(trained(document, documentId, index, replaced.length > 0))
          return replaced
        }),
    },
  )
}

async function storeTogether(
  documents: readonly DocumentToStore[],
  segment: PackedSegment,
  index: IndexRow,
  deps: TrainDeps,
  by: Training,
): Promise<void> {
  const { db, clock } = deps
  const key = { tenantId: index.tenant_id, indexId: index.id }
  const now = isoTime(clock.now())
  const replaced = await change(deps, by, async ({ tx, caller, record }) => {
    await requireStillWritable(tx, caller, index)
    const { documentIds, replaced } = await publishTogether(tx, key, documents, { segment, now })
    const sources = new Set(replaced.map(({ source }) => source))
    const entries = documents.map((document, at) =>
      trained(document, documentIds[at] as string, index, sources.has(document.source)),
    )
    await record(...entries)
    return replaced
  })
  for (const { documentId } of replaced) await removeDocument(db, { ...key, documentId })
  await deps.merger.merge(key)
}

const trained = (
  { source, contentHash, prepared }: DocumentToStore,
  id: string,
  index: IndexRow,
  replaced: boolean,
): Activity =>
  documentActivity(index, {
    operation: 'train',
    document: { id, source },
    facts: { passages: prepared.passageCount, replaced },
    content: { contentHash },
  })

/** The maximum time to write a document. If an unpublished document is older, a crash has left it behind. */
const ABANDONED_MS = UPLOAD_TIMEOUT_MS

/**
 * Returns a hash of everything that determines the result: the bytes, the extension and type, the rules, and the policy
 * that decides which embedding model may read the document.
 */
function hashOf(
  { name, type, contentHash }: Upload,
  { rulesHash }: DocumentScreening,
  policyId: string | null,
): string {
  const ending = /\.[^./]+$/.exec(name)?.[0].toLowerCase() ?? ''
  return hash(
    'sha256',
    [
      EXTRACTION_VERSION,
      ending,
      type,
      contentHash,
      ...rulesHash,
      ...(policyId === null ? [] : [`policy:${policyId}`]),
    ].join(' '),
  )
}

/**
 * Returns the reason to skip a document without reading it: the document is too large, or its name cannot be stored or
 * displayed.
 */
function faultOf(name: string, { isTooLarge }: Upload): string | undefined {
  if (name === '') return 'The file has no name.'
  if (name.length > DOCUMENT_NAME_CHARS) return `A name may have at most ${DOCUMENT_NAME_CHARS} characters.`
  if (name.split('/').includes('..')) return 'A name must not contain ".." as a folder.'
  if (UNNAMEABLE.test(name)) return 'The name contains control characters.'
  return isTooLarge ? `The file has more than ${TRAIN_FILE_BYTES} bytes; split it.` : undefined
}

/** Matches invisible characters and line ends. Does not match the joiners, because Persian and emoji need them. */
const UNNAMEABLE = /[\p{Cc}\p{Surrogate}\p{Zl}\p{Zp}]|(?![\u200c\u200d])\p{Cf}/u

/**
 * Returns the stored name of a document. A name is a label and is never opened as a path. Folders are kept, so that two
 * files named README.md can coexist. The name is Unicode-normalized, because operating systems encode the same letters
 * differently.
 */
function documentName(name: string): string {
  return name
    .normalize('NFC')
    .replaceAll('\\', '/')
    .replace(/^[A-Za-z]:/, '')
    .split('/')
    .filter((part) => part !== '' && part !== '.')
    .join('/')
    .trim()
}
