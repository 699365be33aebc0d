import type { z } from 'zod'
import { StructuredError } from '../../shared/wire/common.ts'
import { RELOAD_PATH, type Reload, ReloadResponse } from '../../shared/wire/reload.ts'
import { type Route, reply, route } from '../platform/http/route.ts'
import { type Activity, type ChangeDeps, change } from '../records/audit/change.ts'
import type { Configuration } from './configuration.ts'

/** The route with which the operator reloads the configuration of this daemon. */
export function reloadRoutes({ configuration, ...deps }: ChangeDeps & { configuration: Configuration }): Route[] {
  return [
    route({
      access: 'operator',
      errors: 'structured',
      tags: ['Configuration'],
      method: 'POST',
      path: RELOAD_PATH,
      summary: 'Read the configuration file of this daemon again, and apply it',
      responses: {
        200: { description: 'What has changed, and what needs a restart', schema: ReloadResponse },
        422: { description: 'The configuration is invalid; nothing was changed', schema: StructuredError },
      },
      async handle(context) {
        const reload = await configuration.reload((changes) =>
          change(deps, context, ({ record }) => record(reloadActivity(changes))),
        )
        return reply(200, { success: true, message: messageOf(reload), reload } satisfies z.input<
          typeof ReloadResponse
        >)
      },
    }),
  ]
}

/** The entry of a reload. It names settings, and contains none of their values. */
export const reloadActivity = ({ changed, needsRestart }: Reload): Activity => ({
  type: 'configuration_management',
  operation: 'reload',
  resourceType: 'configuration',
  resourceId: 'configuration',
  description: `reloaded the configuration; changed: ${changed.join(', ') || 'nothing'}`,
  metadata: { changed, needs_restart: needsRestart },
})

function messageOf({ changed, needsRestart }: Reload): string {
  const applied = changed.length === 0 ? 'Nothing has changed.' : `Applied: ${changed.join(', ')}.`
  const kept = `Restart the daemon to apply: ${needsRestart.join(', ')}. The earlier values stay in force until then.`
  return needsRestart.length === 0 ? applied : `${applied} ${kept}`
}
