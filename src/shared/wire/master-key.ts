import { z } from 'zod'

export const MASTER_KEY_PATH = '/api/admin/secrets/master-key'
export const ROTATE_MASTER_KEY_PATH = '/api/admin/secrets/rotate-master'

export const MasterKeyResponse = z.object({
  success: z.literal(true),
  master_key: z
    .object({
      id: z.string().meta({ description: 'Names the key that encrypts; reveals nothing about it' }),
      since: z.string().meta({ description: 'When all secrets of the store were encrypted with their key' }),
      rotation: z
        .object({
          phase: z.enum(['accept', 'reseal']),
          to: z.string().meta({ description: 'The id of the new key' }),
          started_at: z.string(),
        })
        .nullable(),
    })
    .meta({ id: 'MasterKey' }),
})
