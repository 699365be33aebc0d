import { z } from 'zod'

export const RELOAD_PATH = '/api/admin/config/reload'

export const ReloadResponse = z.object({
  success: z.literal(true),
  message: z.string(),
  reload: z
    .object({
      changed: z
        .array(z.string())
        .meta({ description: 'The settings that apply from now on, such as `providers.openai`' }),
      needsRestart: z
        .array(z.string())
        .meta({ description: 'The settings that differ but apply only after a restart; their earlier values stay' }),
    })
    .meta({ id: 'Reload' }),
})
export type Reload = z.output<typeof ReloadResponse>['reload']
