import { z } from 'zod'
import { INDEX_ACCESS, LEVELS, SECTIONS } from '../permissions.ts'
import { LOSS_CAUSES } from './evidence.ts'

/** GET /health */
export const HealthResponse = z.object({
  success: z.boolean(),
  status: z.enum(['healthy', 'unhealthy']),
  timestamp: z.string(),
  version: z.string().meta({ description: 'Version of this interface' }),
})

export const LivezResponse = z.object({ status: z.literal('ok') })

export const ReadyzResponse = z.object({
  status: z
    .enum(['ready', 'degraded', 'not ready'])
    .meta({ description: '`degraded`: requests are served, but evidence is lost or secrets cannot be opened' }),
  checks: z.object({
    store: z.boolean(),
    migrations: z.boolean(),
    master_key: z.boolean().meta({ description: 'Whether this daemon has the master key of the store' }),
    accepting: z.boolean(),
    evidence: z.boolean(),
    secrets: z.boolean().meta({ description: 'Whether all secrets of the store could be opened at start' }),
  }),
  lost_history: z.array(z.enum(LOSS_CAUSES)).optional().meta({
    description: 'The causes, if `evidence` is false; an operator acknowledges them with `aigw audit losses`',
  }),
  unopened_secrets: z
    .int()
    .optional()
    .meta({ description: 'How many secrets cannot be opened, if `secrets` is false' }),
})

/** GET /whoami: the caller to whom the presented key belongs, and the key's rights. */
export const WhoamiResponse = z.object({
  success: z.literal(true),
  user: z.object({ id: z.string(), name: z.string(), email: z.string(), role: z.string() }),
  tenant: z.object({ id: z.string(), name: z.string() }),
  api_key: z.object({
    id: z.string(),
    name: z.string(),
    operator: z.boolean(),
    adminAccess: z.boolean(),
    indexAccess: z.enum(INDEX_ACCESS),
  }),
  permissions: z
    .array(z.object({ section: z.enum(SECTIONS), level: z.enum(LEVELS) }))
    .meta({ description: 'The sections of the administration that the key may use' }),
  canInteractWithAI: z.boolean(),
  canUseChat: z.boolean(),
})
