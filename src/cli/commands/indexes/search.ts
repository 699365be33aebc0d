/** Searches a knowledge base. */
import { Command } from 'commander'
import type { z } from 'zod'
import { SEARCH_TOP_K } from '../../../shared/spec-limits.ts'
import type { SearchResponse } from '../../../shared/wire/indexes.ts'
import type { CliContext } from '../../context.ts'
import { toWholeNumber } from '../../input/numbers.ts'
import { createPainter, mayColour } from '../../output/colour.ts'
import { columns, flexible } from '../../output/formats.ts'
import { isPlain } from '../../output/output.ts'
import { createProgress } from '../../output/progress.ts'
import { getIndexName, indexPath } from './name.ts'
import { toPassages } from './passages.ts'

const VIEW = {
  columns: columns({ RANK: 'rank', SCORE: 'score', SOURCE: 'source', CONTENT: flexible('content') }),
  idPath: 'metadata.documentId',
  none: 'Nothing found.',
}

export function toCommand(context: CliContext): Command {
  return new Command('search')
    .description('Search a knowledge base, as chat does before it answers.')
    .argument('<index>', 'knowledge base')
    .argument('<query...>', 'search words')
    .option('-k, --top-k <n>', 'how many passages', String(SEARCH_TOP_K.default))
    .action((index: string, words: string[], flags: { topK: string }) =>
      search(context, getIndexName(index), words.join(' '), toWholeNumber(flags.topK, '--top-k', SEARCH_TOP_K)),
    )
}

/**
 * GET /indexes/{name}/search. If no passage matches, prints an empty list. On a terminal, prints whole passages instead
 * of a table.
 */
async function search(context: CliContext, index: string, query: string, topK: number): Promise<void> {
  const [api, output, settings] = await Promise.all([context.api(), context.output(), context.settings()])
  const request = { method: 'GET', path: indexPath(index, 'search'), query: { query, top_k: topK } }
  const progress = createProgress(context.io, settings)
  progress.show(`Searching ${index}`)
  const { body, raw } = await api.send<z.infer<typeof SearchResponse>>(request).finally(progress.end)
  const { skipped_models: skipped = [] } = body.results
  if (skipped.length > 0) {
    await context.note(`note: the policy forbids ${skipped.join(', ')}, so the search ran without it`)
  }
  const rounded = body.results.matches.map((match) => ({ ...match, score: Number(match.score.toFixed(4)) }))
  const { format = 'table', color } = settings
  if (!output.terminal || !isPlain(settings) || format !== 'table' || rounded.length === 0) {
    return output.list(rounded, VIEW, raw)
  }
  const painter = await createPainter(mayColour({ flag: color, env: context.io.env, isTerminal: true }))
  await output.ownText(toPassages(rounded, query, { width: context.io.stdout.columns ?? 80, painter }))
}
