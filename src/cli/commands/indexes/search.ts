import { Command } from 'commander'
import type { z } from 'zod'
import { SEARCH_TOP_K } from '../../../shared/spec-limits.ts'
import type { SearchResponse } from '../../../shared/wire/indexes.ts'
import type { CliContext } from '../../context.ts'
import { usageError } from '../../errors.ts'
import { createPainter, mayColour } from '../../output/colour.ts'
import { isPlain } from '../../output/output.ts'
import { createProgress } from '../../output/progress.ts'
import { getIndexName, indexPath } from './name.ts'
import { toPassages } from './passages.ts'

export type SearchInput = { index: string; query: string; topK: number }

const VIEW = {
  columns: [{ path: 'rank' }, { path: 'score' }, { path: 'source' }, { path: 'content', flexible: true }],
  idPath: 'metadata.documentId',
  none: 'Nothing found.',
}

export function toCommand(context: CliContext, run = searchIndex): Command {
  return new Command('search')
    .description('Search a knowledge base; what chat would be given to answer from.')
    .argument('<index>', 'knowledge base')
    .argument('<query...>', 'what to look for')
    .option('-k, --top-k <n>', 'how many passages', String(SEARCH_TOP_K.default))
    .action((index: string, words: string[], flags: { topK: string }) =>
      run(context, { index: getIndexName(index), query: words.join(' '), topK: toTopK(flags.topK) }),
    )
}

function toTopK(text: string): number {
  const topK = Number(text)
  if (Number.isInteger(topK) && topK >= SEARCH_TOP_K.min && topK <= SEARCH_TOP_K.max) return topK
  throw usageError(`--top-k must be a whole number from ${SEARCH_TOP_K.min} to ${SEARCH_TOP_K.max}, not '${text}'`)
}

/** GET /indexes/{name}/search; no match is an empty list, not a failure. A terminal gets whole passages, not a table. */
export async function searchIndex(context: CliContext, { index, query, topK }: SearchInput): Promise<void> {
  const [api, output, settings] = await Promise.all([context.api(), context.output(), context.settings()])
  const request = { method: 'GET', path: indexPath(index, 'search'), query: { query, top_k: topK } }
  const progress = createProgress(context.io, settings)
  progress.show(`Searching ${index}`)
  const { body, raw } = await api.send<z.infer<typeof SearchResponse>>(request).finally(progress.end)
  const rounded = body.results.matches.map((match) => ({ ...match, score: Number(match.score.toFixed(4)) }))
  const { format = 'table', color } = settings
  if (!output.terminal || !isPlain(settings) || format !== 'table' || rounded.length === 0) {
    return output.list(rounded, VIEW, raw)
  }
  const painter = await createPainter(mayColour({ flag: color, env: context.io.env, isTerminal: true }))
  await output.ownText(toPassages(rounded, query, { width: context.io.stdout.columns ?? 80, painter }))
}
