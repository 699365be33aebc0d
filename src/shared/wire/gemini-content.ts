// The contents and tools of Gemini's API. Members may also be written in snake_case, as Google's servers accept them.
import { z } from 'zod'
import { optional } from './common.ts'
import { longList } from './long-list.ts'
import { MEDIA_TYPE } from './message-blocks.ts'

const toSnake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

const isSet = (member: unknown): boolean => member !== undefined && member !== null

/**
 * An object of Gemini's API. Known members may also have their snake_case name, but not both names. Other members are
 * kept, because a provider with this API may know them.
 */
export function protoObject<Shape extends z.core.$ZodLooseShape>(shape: Shape, mustBe: string) {
  const renamed = Object.keys(shape).flatMap((name) => (toSnake(name) === name ? [] : [[toSnake(name), name] as const]))
  const inCamelCase = (value: unknown, context: z.core.$RefinementCtx): unknown => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
    const members = value as Record<string, unknown>
    const snake = renamed.filter(([given]) => Object.hasOwn(members, given))
    if (snake.length === 0) return value
    // `null` means "not set", so it must not hide the value under the other name.
    const set = Object.entries(members).filter(([, member]) => isSet(member))
    const names = new Map<string, string>(snake)
    const camel = Object.fromEntries(set.map(([name, member]) => [names.get(name) ?? name, member]))
    if (Object.keys(camel).length < set.length) {
      const [twice] = snake.filter(([given, name]) => isSet(members[given]) && isSet(members[name]))
      context.addIssue(`send either ${twice?.[1]} or ${twice?.[0]}, not both`)
    }
    return camel
  }
  return z.preprocess(inCamelCase, z.looseObject(shape, { error: mustBe }))
}

/** An object whose members may have any name. */
export const freeJson = (error = 'must be an object') => z.record(z.string(), z.unknown(), { error })

const text = (name: string) => optional(z.string({ error: `${name} must be a string` }))

const MimeType = z
  .string({ error: 'mimeType must be a string' })
  .regex(MEDIA_TYPE, { error: 'mimeType must be a media type, such as "image/png"' })

/** Data of a file, in base64. */
export const Blob = protoObject(
  {
    mimeType: MimeType,
    // Google's clients also send URL-safe base64.
    data: z
      .string({ error: 'data must be a string' })
      .regex(/^[\w+/-]+={0,2}$/, { error: 'data must be base64' })
      .transform((data) => (/[-_]/.test(data) ? Buffer.from(data, 'base64').toString('base64') : data)),
  },
  'inlineData must be an object {mimeType, data}',
)
const FileData = protoObject(
  { mimeType: optional(MimeType), fileUri: z.string({ error: 'fileUri must be a string' }) },
  'fileData must be an object {mimeType, fileUri}',
)
const FunctionCall = protoObject(
  {
    id: text('functionCall.id'),
    name: z.string({ error: 'functionCall.name must be a string' }),
    args: optional(freeJson()),
  },
  'functionCall must be an object {id, name, args}',
)
const FunctionResponse = protoObject(
  {
    id: text('functionResponse.id'),
    name: z.string({ error: 'functionResponse.name must be a string' }),
    response: optional(freeJson('functionResponse.response must be an object')),
    parts: optional(
      z.array(protoObject({ inlineData: Blob }, 'each of functionResponse.parts must be {inlineData}'), {
        error: 'functionResponse.parts must be an array',
      }),
    ),
  },
  'functionResponse must be an object {id, name, response}',
)

/** A part has exactly one kind of content. */
export const GeminiPart = protoObject(
  {
    text: text('text'),
    inlineData: optional(Blob),
    fileData: optional(FileData),
    functionCall: optional(FunctionCall),
    functionResponse: optional(FunctionResponse),
    thought: optional(z.boolean({ error: 'thought must be true or false' })),
    thoughtSignature: text('thoughtSignature'),
  },
  'each of parts must be an object',
).meta({ id: 'GeminiPart' })
export type GeminiPart = z.infer<typeof GeminiPart>

export const GeminiContent = protoObject(
  {
    // `function` is the older role of function responses.
    role: optional(z.enum(['user', 'model', 'function'], { error: 'role must be user or model' })),
    // Answers without content have no parts, and clients send them back.
    parts: optional(longList(z.array(GeminiPart, { error: 'parts must be an array' }))),
  },
  'each of contents must be an object {role, parts}',
).meta({ id: 'GeminiContent' })
export type GeminiContent = z.infer<typeof GeminiContent>

/** Only texts: the system instruction, and the content to embed. */
export const TextContent = protoObject(
  {
    parts: z.array(
      protoObject({ text: z.string({ error: 'each of parts must be {text}' }) }, 'each of parts must be {text}'),
      {
        error: 'parts must be an array of {text}',
      },
    ),
  },
  'must be an object {parts: [{text}]}',
).meta({ id: 'GeminiTexts' })

const schema = (name: string) => optional(freeJson(`${name} must be a schema`))

const FunctionDeclaration = protoObject(
  {
    name: z.string({ error: 'a functionDeclaration must have a name' }),
    description: text('description'),
    parameters: schema('parameters'),
    parametersJsonSchema: schema('parametersJsonSchema'),
  },
  'each of functionDeclarations must be an object {name, description, parameters}',
)
export type FunctionDeclaration = z.infer<typeof FunctionDeclaration>

const serverTool = optional(z.looseObject({}))

/** `functionDeclarations`, or one tool that Google runs, such as `googleSearch`. */
export const GeminiTool = protoObject(
  {
    functionDeclarations: optional(
      longList(z.array(FunctionDeclaration, { error: 'functionDeclarations must be an array' })),
    ),
    // Named here only for their snake_case names.
    googleSearch: serverTool,
    googleSearchRetrieval: serverTool,
    googleMaps: serverTool,
    codeExecution: serverTool,
    urlContext: serverTool,
    fileSearch: serverTool,
    computerUse: serverTool,
  },
  'each tool must be an object, such as {functionDeclarations}',
).meta({ id: 'GeminiTool' })
export type GeminiTool = z.infer<typeof GeminiTool>

export const ToolConfig = protoObject(
  {
    functionCallingConfig: optional(
      protoObject(
        {
          mode: optional(
            z.enum(['MODE_UNSPECIFIED', 'AUTO', 'ANY', 'NONE', 'VALIDATED'], {
              error: 'functionCallingConfig.mode must be AUTO, ANY, NONE or VALIDATED',
            }),
          ),
          allowedFunctionNames: optional(
            z.array(z.string(), { error: 'allowedFunctionNames must be an array of names' }),
          ),
        },
        'functionCallingConfig must be an object {mode, allowedFunctionNames}',
      ),
    ),
  },
  'toolConfig must be an object {functionCallingConfig}',
).meta({ id: 'GeminiToolConfig' })
export type ToolConfig = Partial<z.infer<typeof ToolConfig>>
