/** Shows and clears the answer cache of the tenant. */
import { Command } from 'commander'
import type { ClearCacheResponse, ShowCacheResponse } from '../../../shared/wire/cache.ts'
import type { CliContext } from '../../context.ts'
import { columns } from '../../output/formats.ts'
import { itemIn } from '../../resources/resolve.ts'

const PATH = '/api/admin/cache'

const VIEW = {
  columns: columns(
    { ENABLED: 'enabled', 'LIFETIME (S)': 'ttlSeconds', ANSWERS: 'entries', BYTES: 'bytes', 'MAX BYTES': 'maxBytes' },
    { OLDEST: 'oldestAt' },
  ),
}

export const commands = { show: showCommand, clear: clearCommand }

/** GET /api/admin/cache. */
function showCommand(context: CliContext): Command {
  return new Command('show')
    .description('Show whether the answer cache is enabled, and how many answers of the tenant it contains.')
    .action(async () => {
      const [api, output] = await Promise.all([context.api(), context.output()])
      const { body, raw } = await api.send({ method: 'GET', path: PATH })
      await output.one(itemIn<ShowCacheResponse['cache']>(body, 'cache', api.baseUrl), VIEW, raw)
    })
}

/** DELETE /api/admin/cache, after a confirmation. */
function clearCommand(context: CliContext): Command {
  return new Command('clear')
    .description('Delete all stored answers of the tenant. The next requests call the models again.')
    .action(async () => {
      const [api, output, settings] = await Promise.all([context.api(), context.output(), context.settings()])
      if (!settings.dryRun) await context.confirm('Delete all stored answers of the tenant?')
      const { body, raw } = await api.send<ClearCacheResponse>({ method: 'DELETE', path: PATH })
      const { deleted } = body
      await context.note(`Deleted ${deleted} stored ${deleted === 1 ? 'answer' : 'answers'}.`)
      await output.one({ deleted }, { columns: [{ path: 'deleted' }] }, raw)
    })
}
