import { z } from 'zod'
import { createDocument, type ZodOpenApiOperationObject, type ZodOpenApiPathsObject } from 'zod-openapi'
import { INTERFACE_VERSION } from '../../../shared/spec-limits.ts'
import { CACHE_HEADER, CACHE_REQUESTS } from '../../../shared/wire/cache.ts'
import { IdempotencyKey } from '../../../shared/wire/common.ts'
import { TAG_HEADER, TagHeader } from '../../../shared/wire/tags.ts'
import { completeParameters, completeSchemas } from './description/complete.ts'
import { EXAMPLES } from './description/examples.ts'
import { operationText } from './description/operation-text.ts'
import { TAG_TEXTS } from './description/texts.ts'
import { endpointOf, type ResponseDoc, type Route } from './route.ts'
import { toShortPath } from './router.ts'

/** Generates the OpenAPI 3.1 document of these routes from the schemas that validate the requests. */
export function openApiDocument(routes: readonly Route[]): object {
  const paths: ZodOpenApiPathsObject = {}
  for (const route of routes) {
    paths[route.path] = { ...paths[route.path], [route.method.toLowerCase()]: operation(route) }
    const short = toShortPath(route.path)
    if (short === undefined) continue
    const alias = { ...operation(route), operationId: `${operationId(route)}Short` }
    paths[short] = { ...paths[short], [route.method.toLowerCase()]: alias }
  }
  const used = new Set(routes.flatMap(({ tags }) => tags))
  return completed(
    createDocument({
      openapi: '3.1.0',
      info: {
        title: 'aigw',
        version: INTERFACE_VERSION,
        description:
          'Multi-tenant AI gateway: chat with retrieval and failover, access management, webhooks, evidence.',
        license: { name: 'MIT', identifier: 'MIT' },
      },
      servers: [
        {
          url: '{gateway}',
          description: 'The gateway',
          variables: {
            gateway: {
              default: 'http://127.0.0.1:8787',
              description: 'The address of the gateway, without a final slash',
            },
          },
        },
      ],
      tags: Object.entries(TAG_TEXTS)
        .filter(([name]) => used.has(name))
        .map(([name, description]) => ({ name, description })),
      components: {
        securitySchemes: {
          apiKey: {
            type: 'http',
            scheme: 'bearer',
            bearerFormat: 'sk-<64 hex>',
            description: 'An API key of the gateway, sent as `Authorization: Bearer sk-…`.',
          },
        },
      },
      paths,
    }),
  )
}

type Document = ReturnType<typeof createDocument>

/** Adds the descriptions that the schemas of the routes do not have. */
function completed(document: Document): Document {
  for (const [name, schema] of Object.entries(document.components?.schemas ?? {})) completeSchemas(schema, [name])
  for (const [path, operations] of Object.entries(document.paths ?? {})) {
    // The word before the parameters of the path names the resource.
    const resource = path.split('/').findLast((segment) => segment !== '' && !segment.startsWith('{')) ?? ''
    for (const { parameters = [], requestBody, responses } of Object.values<Operation>(
      operations as Record<string, Operation>,
    )) {
      completeParameters(parameters)
      completeSchemas([requestBody, responses], [resource])
    }
  }
  return document
}

type Operation = { parameters?: Record<string, unknown>[]; requestBody?: object; responses?: object }

const IDEMPOTENCY_HEADER = {
  'Idempotency-Key': IdempotencyKey.optional().meta({
    description: 'A request with the same key returns the first response and is not billed again',
  }),
}
const ANSWER_CACHE_HEADER = {
  [CACHE_HEADER]: z.enum(CACHE_REQUESTS).optional().meta({
    description:
      '`use`: return the stored answer to an identical request, if there is one. `refresh`: call the model and replace the stored answer. `off`: do not use the answer cache',
  }),
}

function operation(route: Route): ZodOpenApiOperationObject {
  const params = [...route.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string)
  return {
    operationId: operationId(route),
    summary: route.summary,
    description: operationText(route),
    tags: route.tags,
    ...(route.access !== 'none' && { security: [{ apiKey: [] }] }),
    ...((params.length > 0 || route.query || takesHeaders(route)) && {
      requestParams: {
        ...(params.length > 0 && { path: z.object(Object.fromEntries(params.map((name) => [name, z.string()]))) }),
        ...(route.query instanceof z.ZodObject && { query: route.query }),
        ...(takesHeaders(route) && {
          header: z.object({
            ...(route.takesIdempotencyKey && IDEMPOTENCY_HEADER),
            ...(route.usesCache && ANSWER_CACHE_HEADER),
            ...(route.callsModels && { [TAG_HEADER]: TagHeader }),
          }),
        }),
      },
    }),
    ...(route.body && {
      requestBody: { required: !route.bodyOptional, content: { [bodyType(route)]: { schema: route.body } } },
    }),
    responses: Object.fromEntries(
      Object.entries(route.responses).map(([status, doc]) => [
        status,
        response(doc, EXAMPLES[`${endpointOf(route)} ${status}`]),
      ]),
    ),
  }
}

const takesHeaders = ({ takesIdempotencyKey, usesCache, callsModels }: Route): boolean =>
  takesIdempotencyKey === true || usesCache === true || callsModels === true

const bodyType = (route: Route) => (route.bodyLimit === 'unread' ? 'multipart/form-data' : 'application/json')

function operationId({ method, path }: Route): string {
  const words = path.replace(/^\/api\/external/, '').match(/[A-Za-z0-9]+/g) ?? []
  return method.toLowerCase() + words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('')
}

function response({ description, schema, stream, text }: ResponseDoc, example: unknown) {
  if (!schema && !text) return { description }
  return {
    description,
    content: {
      ...(text && { [text]: { schema: { type: 'string' as const } } }),
      ...(schema && { 'application/json': { schema, ...(example !== undefined && { example }) } }),
      ...(stream && { 'text/event-stream': { schema: stream } }),
    },
  }
}
