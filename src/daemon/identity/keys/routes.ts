import type { z } from 'zod'
import { isoTime } from '../../../shared/time.ts'
import { StructuredError } from '../../../shared/wire/common.ts'
import {
  CreateKeyRequest,
  KeyResponse,
  KeySecretResponse,
  ListKeysQuery,
  ListKeysResponse,
  ShowKeyResponse,
  UpdateKeyRequest,
} from '../../../shared/wire/keys.ts'
import { toPagination } from '../../platform/db/list-page.ts'
import { type ResponseDoc, type Route, reply, route } from '../../platform/http/route.ts'
import { changeKey, createKey, getKey, type KeyDeps, type NewSecret, revokeKey, rotateKey } from './lifecycle.ts'
import { listKeys, type OwnedKey } from './store.ts'
import { toApiKey } from './view.ts'
import { whoamiRoute } from './whoami.ts'

const refused = (description: string): ResponseDoc => ({ description, schema: StructuredError })

const notAllowed = refused(
  "Not an administrator, the affected key has more rights than the caller's key, or it belongs to another user and the caller does not administer users",
)
const mayDoMore = refused("Not an administrator, or the affected key has more rights than the caller's key")
const unknown = refused('No key of this tenant has this id')
const revoked = refused('The key was revoked')

/** Responses with a secret must not be cached. */
const SECRET_HEADERS = { 'cache-control': 'no-store' }

/** Returns the routes of API keys, and the route whoami. */
export function keyRoutes(deps: KeyDeps): Route[] {
  const { db, clock } = deps
  const shown = (key: OwnedKey) => toApiKey(key, isoTime(clock.now()))
  const withSecret = (message: string, { key, secret }: NewSecret) =>
    ({ success: true, message, apiKey: shown(key), secret }) satisfies z.input<typeof KeySecretResponse>

  return [
    whoamiRoute(),
    route({
      method: 'GET',
      path: '/api/admin/api-keys',
      access: 'integrations',
      errors: 'structured',
      summary: 'List API keys',
      tags: ['Keys'],
      query: ListKeysQuery,
      responses: {
        200: { description: 'One page', schema: ListKeysResponse },
      },
      async handle({ caller, query }) {
        const { keys, total } = await listKeys(db, caller.tenantId, query, isoTime(clock.now()))
        return reply(200, {
          success: true,
          apiKeys: keys.map(shown),
          pagination: toPagination(query, total),
        } satisfies z.input<typeof ListKeysResponse>)
      },
    }),
    route({
      method: 'POST',
      path: '/api/admin/api-keys',
      access: 'integrations',
      errors: 'structured',
      summary: 'Create an API key; its secret is returned only once',
      tags: ['Keys'],
      body: CreateKeyRequest,
      responses: {
        403: notAllowed,
        201: { description: 'The key and its secret', schema: KeySecretResponse },
      },
      async handle(context) {
        return reply(201, withSecret('API key created', await createKey(deps, context, context.body)), SECRET_HEADERS)
      },
    }),
    route({
      method: 'GET',
      path: '/api/admin/api-keys/{keyId}',
      access: 'integrations',
      errors: 'structured',
      summary: 'Show an API key',
      tags: ['Keys'],
      responses: { 200: { description: 'The key', schema: ShowKeyResponse }, 404: unknown },
      async handle({ caller, params }) {
        const apiKey = shown(await getKey(db, caller, params.keyId))
        return reply(200, { success: true, apiKey } satisfies z.input<typeof ShowKeyResponse>)
      },
    }),
    route({
      method: 'PUT',
      path: '/api/admin/api-keys/{keyId}',
      access: 'integrations',
      errors: 'structured',
      summary: 'Update an API key',
      tags: ['Keys'],
      body: UpdateKeyRequest,
      responses: {
        403: notAllowed,
        200: { description: 'The updated key', schema: KeyResponse },
        404: unknown,
        409: revoked,
      },
      async handle(context) {
        const apiKey = shown(await changeKey(deps, context, context.params.keyId, context.body))
        return reply(200, { success: true, message: 'API key updated', apiKey } satisfies z.input<typeof KeyResponse>)
      },
    }),
    route({
      method: 'DELETE',
      path: '/api/admin/api-keys/{keyId}',
      access: 'integrations',
      errors: 'structured',
      summary: 'Revoke an API key permanently; it stays in the list',
      tags: ['Keys'],
      responses: { 403: mayDoMore, 200: { description: 'The revoked key', schema: KeyResponse }, 404: unknown },
      async handle(context) {
        const apiKey = shown(await revokeKey(deps, context, context.params.keyId))
        return reply(200, { success: true, message: 'API key revoked', apiKey } satisfies z.input<typeof KeyResponse>)
      },
    }),
    route({
      method: 'POST',
      path: '/api/admin/api-keys/{keyId}/rotate',
      access: 'integrations',
      errors: 'structured',
      summary: 'Give an API key a new secret; the old secret is rejected at once',
      tags: ['Keys'],
      responses: {
        403: notAllowed,
        200: { description: 'The key and its new secret', schema: KeySecretResponse },
        404: unknown,
        409: revoked,
      },
      async handle(context) {
        const rotated = await rotateKey(deps, context, context.params.keyId)
        return reply(200, withSecret('API key rotated', rotated), SECRET_HEADERS)
      },
    }),
  ]
}
