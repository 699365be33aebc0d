import type { z } from 'zod'
import { CHAT_PATH } from '../../../src/shared/wire/chat.ts'
import { COMPLETIONS_PATH } from '../../../src/shared/wire/completions.ts'
import { TRIGGER_PATH } from '../../../src/shared/wire/event-feed.ts'
import {
  BATCH_EMBED_CONTENTS_PATH,
  EMBED_CONTENT_PATH,
  GEMINI_COUNT_TOKENS_PATH,
  GENERATE_CONTENT_PATH,
  STREAM_GENERATE_CONTENT_PATH,
} from '../../../src/shared/wire/gemini.ts'
import { COUNT_TOKENS_PATH, MESSAGES_PATH } from '../../../src/shared/wire/messages.ts'
import { MODERATIONS_PATH } from '../../../src/shared/wire/moderations.ts'
import { OPENAI_CHAT_PATH, OPENAI_EMBEDDINGS_PATH } from '../../../src/shared/wire/openai.ts'
import { RERANK_PATH } from '../../../src/shared/wire/rerank.ts'
import { RESPONSES_PATH } from '../../../src/shared/wire/responses.ts'
import { definition, type JsonSchema, toInputSchema } from './generated-input.ts'
import { ROUTE_CALLS } from './route-calls.ts'
import type { World } from './world.ts'

/** Placeholder for a name that no earlier request used. */
export const NEW_NAME = 'new-name'

/** Additional chat bodies, for the strings that the valid body does not contain. */
const CHAT_BODIES = [
  {
    prompt: 'hi',
    system_message: 'Be brief.',
    model: 'test/any',
    fallback_models: ['test/other', { model: 'test/third' }],
    redundancy: { on: ['timeout'], commit: 'complete' },
    index: 'hostile',
    smltp_policy: 'public',
    conversation_id: 'c',
    user_id: 'f'.repeat(24),
    prompt_shield: { policy: 'p' },
  },
  { prompt: 'hi', system_message: 'Be brief.', model: 'test/any', index: 'Zero-Knowledge', conversation_id: 'c' },
  { prompt: 'hi', model: 'local/extract', index: 'hostile' },
  { messages: [{ role: 'user', content: 'hi' }], models: ['test/any', { model: 'test/b' }], index: 'Zero-Knowledge' },
]

const EXTENSIONS = { smltp_policy: 'public', prompt_shield: { policy: 'p' }, user_id: 'f'.repeat(24) }
const IMAGE = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'aGk=' } }

/** Fields shared by requests to Anthropic's messages and token count routes. */
const CACHE = { type: 'ephemeral', ttl: '5m', scope: 'global' }
const CACHED_TEXT = { type: 'text', text: 'hi', cache_control: CACHE }
const CITED_TEXT = { type: 'text', text: 'hi', citations: [{ type: 'char_location' }] }
const PICTURES = [
  IMAGE,
  { type: 'image', source: { type: 'url', url: 'https://example.com/a.png' }, cache_control: CACHE },
  { type: 'image', source: { type: 'file', file_id: 'file_1' } },
]
const FILES = [
  { type: 'url', url: 'https://example.com/a.pdf' },
  { type: 'file', file_id: 'file_1' },
  { type: 'base64', media_type: 'application/pdf', data: 'aGk=' },
  { type: 'text', media_type: 'text/plain', data: 'hi' },
  { type: 'content', content: 'hi' },
  { type: 'content', content: [CACHED_TEXT, CITED_TEXT, ...PICTURES] },
].map((source) => ({ type: 'document', source, title: 'A title', context: 'A context', cache_control: CACHE }))
const FOUND = {
  type: 'search_result',
  source: 'A source',
  title: 'A title',
  content: [CACHED_TEXT, CITED_TEXT],
  cache_control: CACHE,
}
const NATIVE = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: {}, cache_control: CACHE }

const ANTHROPIC_FIELDS = {
  system: 'Be brief.',
  cache_control: CACHE,
  messages: [
    { role: 'user', content: [CACHED_TEXT, CITED_TEXT, ...PICTURES, ...FILES, FOUND, NATIVE] },
    { role: 'assistant', content: [CACHED_TEXT, CITED_TEXT, NATIVE] },
    {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 'Hm.', signature: 's' },
        { type: 'redacted_thinking', data: 'd' },
        { type: 'tool_use', id: 'call_1', name: 'look', input: {}, cache_control: CACHE },
      ],
    },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1', content: 'A lift.' }] },
    {
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: 'call_1', content: [{ type: 'text', text: 'hi' }, IMAGE] }],
    },
    {
      role: 'user',
      content: [
        {
          type: 'tool_result',
          tool_use_id: 'call_1',
          content: [CACHED_TEXT, CITED_TEXT, ...PICTURES, ...FILES, FOUND, NATIVE],
          cache_control: CACHE,
        },
      ],
    },
  ],
  tools: [
    { type: 'custom', name: 'look', description: 'Looks', input_schema: {}, cache_control: CACHE },
    { type: 'memory_20250818', name: 'memory', cache_control: CACHE },
  ],
  tool_choice: { type: 'tool', name: 'look' },
  thinking: { type: 'adaptive' },
  output_config: { effort: 'low', format: { type: 'json_schema', schema: {} } },
  output_format: { type: 'json_schema', schema: {} },
}

/** The system prompt as blocks. */
const SYSTEM_BLOCKS = { ...ANTHROPIC_FIELDS, system: [CACHED_TEXT, CITED_TEXT] }

/** Parts of a message of chat completions. */
const OPENAI_PARTS = [
  { type: 'text', text: 'hi' },
  { type: 'image_url', image_url: { url: 'https://example.com/a.png', detail: 'low' } },
  { type: 'input_audio', input_audio: { data: 'aGk=', format: 'wav' } },
  { type: 'file', file: { filename: 'A file', file_data: 'data:application/pdf;base64,aGk=' } },
  { type: 'file', file: { filename: 'A file', file_id: 'file-1' } },
]
const OPENAI_CUSTOM = {
  messages: [
    { role: 'system', name: 'rules', content: [{ type: 'text', text: 'Be brief.' }] },
    { role: 'user', name: 'ada', content: OPENAI_PARTS },
    { role: 'assistant', name: 'bot', refusal: 'No.' },
    { role: 'assistant', tool_calls: [{ id: 'call_1', type: 'custom', custom: { name: 'patch', input: 'hi' } }] },
    { role: 'tool', tool_call_id: 'call_1', content: OPENAI_PARTS },
  ],
  tools: [
    { type: 'function', function: { name: 'look' } },
    {
      type: 'custom',
      custom: {
        name: 'patch',
        description: 'Patches',
        format: { type: 'grammar', grammar: { syntax: 'lark', definition: 'start: "a"' } },
      },
    },
  ],
}
const OPENAI_OLD = {
  messages: [
    { role: 'user', content: 'hi' },
    { role: 'assistant', function_call: { name: 'look', arguments: '{}' } },
    { role: 'function', name: 'look', content: 'A lift.' },
  ],
  functions: [{ name: 'look', description: 'Looks', parameters: {} }],
}
const NAMED = [
  { type: 'function', function: { name: 'look' } },
  { type: 'custom', custom: { name: 'patch' } },
]
/** Files of the Responses API. */
const INPUT_FILES = [
  { type: 'input_image', image_url: 'https://example.com/a.png', detail: 'low' },
  { type: 'input_file', filename: 'A file', file_data: 'data:application/pdf;base64,aGk=' },
]
/** Files that only a provider of the Responses API accepts. */
const STORED_FILES = [
  { type: 'input_image', file_id: 'file-1' },
  { type: 'input_file', filename: 'A file', file_url: 'https://example.com/a.pdf' },
  { type: 'input_file', file_id: 'file-1' },
]

const GEMINI_THOUGHT = { text: 'Hm.', thought: true, thoughtSignature: 'c2ln' }
const GEMINI_PARTS = [
  { text: 'hi' },
  { inlineData: { mimeType: 'image/png', data: 'aGk=' } },
  { fileData: { mimeType: 'image/png', fileUri: 'https://example.com/a.png' } },
]
const GEMINI_CONTENTS = {
  systemInstruction: { parts: [{ text: 'Be brief.' }] },
  contents: [
    { role: 'user', parts: GEMINI_PARTS },
    {
      role: 'model',
      parts: [...GEMINI_PARTS, GEMINI_THOUGHT, { functionCall: { id: 'call_1', name: 'look', args: {} } }],
    },
    {
      role: 'user',
      parts: [
        {
          functionResponse: {
            id: 'call_1',
            name: 'look',
            response: {},
            parts: [{ inlineData: { mimeType: 'image/png', data: 'aGk=' } }],
          },
        },
      ],
    },
  ],
  tools: [{ functionDeclarations: [{ name: 'look', description: 'Looks', parameters: {} }] }],
}
const GEMINI_EMBEDDING = { content: { parts: [{ text: 'hi' }] }, taskType: 'RETRIEVAL_QUERY', title: 'A title' }
const GEMINI_REQUEST = {
  ...GEMINI_CONTENTS,
  model: 'models/any',
  toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['look'] } },
  generationConfig: {
    stopSequences: ['END'],
    responseMimeType: 'text/plain',
    responseModalities: ['TEXT'],
    thinkingConfig: { thinkingLevel: 'LOW' },
  },
}
const GEMINI_BODIES = [
  {
    ...EXTENSIONS,
    ...GEMINI_REQUEST,
    fallback_models: ['test/other', { model: 'test/third' }],
    redundancy: { on: ['timeout'], commit: 'complete' },
  },
]

/** The settings of providers that no valid body has together. */
const PROVIDER_MAPS = {
  ...{ base_url: 'http://127.0.0.1:61999/v1', headers: { 'X-Team': 'token' } },
  ...{ prices: { '*': { input: 1, output: 2 } }, timeouts: { '*': { silence: '2m' } } },
}
const PROVIDER_TEXTS = {
  ...{ kind: 'vertex', base_url: 'http://127.0.0.1:61999', location: 'eu', project: 'my-project-123' },
  ...{ publisher: 'google', credentials: 'a key', proxy: 'none', region: 'eu' },
}

/** Additional bodies of the other surfaces. */
const FURTHER_BODIES: Record<string, unknown[]> = {
  [`POST ${TRIGGER_PATH}`]: [
    { type: 'pii:incident', data: { action: 'mask', direction: 'input', entityTypes: ['EMAIL'] } },
  ],
  'POST /api/external/transparency/exports/sign': [
    {
      chains: [{ chain: 'changes', size: 1, head: 'ab'.repeat(32), root: 'ab'.repeat(32) }],
      manifest_sha256: 'ab'.repeat(32),
      row_count: 1,
    },
  ],
  [`POST ${OPENAI_CHAT_PATH}`]: [
    { ...EXTENSIONS, model: 'test/any', messages: [{ role: 'user', content: 'hi' }], modalities: ['text'] },
    { model: 'test/any', ...OPENAI_CUSTOM, tool_choice: { type: 'custom', custom: { name: 'patch' } } },
    {
      model: 'test/any',
      ...OPENAI_CUSTOM,
      tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: NAMED } },
    },
    { model: 'test/any', ...OPENAI_OLD, function_call: { name: 'look' } },
    { model: 'test/any', ...OPENAI_OLD, function_call: 'auto' },
    {
      ...{ model: 'test/any', n: 2, modalities: ['audio'], audio: { voice: 'alloy', format: 'wav' } },
      messages: [
        { role: 'assistant', audio: { id: 'audio_1' } },
        { role: 'user', content: 'hi' },
      ],
    },
  ],
  'POST /api/admin/providers': [
    { name: NEW_NAME, ...PROVIDER_TEXTS },
    { name: NEW_NAME, ...PROVIDER_MAPS },
  ],
  'PUT /api/admin/providers/{name}': [PROVIDER_TEXTS, PROVIDER_MAPS],
  [`POST ${OPENAI_EMBEDDINGS_PATH}`]: [{ ...EXTENSIONS, model: 'test/any', input: 'hi' }],
  [`POST ${RESPONSES_PATH}`]: [
    { ...EXTENSIONS, model: 'test/any', input: 'hi', previous_response_id: 'resp_1' },
    { model: 'test/any', input: [{ type: 'item_reference', id: 'msg_1' }] },
    ...[INPUT_FILES, STORED_FILES].map((content) => ({
      model: 'test/any',
      input: [
        { role: 'user', content },
        { type: 'function_call', call_id: 'call_1', name: 'look', arguments: '{}' },
        { type: 'function_call_output', call_id: 'call_1', output: content },
      ],
    })),
    {
      model: 'test/any',
      input: 'hi',
      // A schema may contain any member, so the privileged members would be part of it.
      text: { format: { type: 'json_schema', name: 'answer', description: 'An answer', schema: {}, strict: false } },
    },
    {
      ...EXTENSIONS,
      models: ['test/any', { model: 'test/b' }],
      fallback_models: ['test/other', { model: 'test/third' }],
      redundancy: { on: ['timeout'], commit: 'complete' },
      input: 'hi',
      tools: [{ type: 'function', name: 'look' }],
      tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'look' }] },
    },
  ],
  [`POST ${COMPLETIONS_PATH}`]: [{ ...EXTENSIONS, model: 'test/any', prompt: 'hi' }],
  [`POST ${MODERATIONS_PATH}`]: [{ ...EXTENSIONS, input: 'hi' }],
  [`POST ${RERANK_PATH}`]: [{ ...EXTENSIONS, model: 'test/any', query: 'hi', documents: ['hi'] }],
  [`POST ${GENERATE_CONTENT_PATH}`]: GEMINI_BODIES,
  [`POST ${STREAM_GENERATE_CONTENT_PATH}`]: GEMINI_BODIES,
  [`POST ${GEMINI_COUNT_TOKENS_PATH}`]: [
    { ...EXTENSIONS, generateContentRequest: GEMINI_REQUEST },
    { ...EXTENSIONS, ...GEMINI_CONTENTS },
  ],
  [`POST ${EMBED_CONTENT_PATH}`]: [{ ...EXTENSIONS, ...GEMINI_EMBEDDING }],
  [`POST ${BATCH_EMBED_CONTENTS_PATH}`]: [{ ...EXTENSIONS, requests: [GEMINI_EMBEDDING] }],
  [`POST ${COUNT_TOKENS_PATH}`]: [
    { ...EXTENSIONS, model: 'test/any', ...ANTHROPIC_FIELDS },
    { model: 'test/any', ...SYSTEM_BLOCKS },
  ],
  [`POST ${MESSAGES_PATH}`]: [
    {
      ...EXTENSIONS,
      models: ['test/any', { model: 'test/b' }],
      fallback_models: ['test/other', { model: 'test/third' }],
      redundancy: { on: ['timeout'], commit: 'complete' },
      max_tokens: 5,
      thread: { type: 'create' },
      ...ANTHROPIC_FIELDS,
    },
    { model: 'test/any', max_tokens: 5, ...SYSTEM_BLOCKS },
  ],
}

/** Bodies for each route with text in its body. Together they contain every string of the schemas. */
export function bodiesOf(world: World): [endpoint: string, bodies: unknown[]][] {
  return Object.entries(ROUTE_CALLS).flatMap(([endpoint, { bodies }]) => {
    if (!bodies) return []
    if (endpoint === `POST ${CHAT_PATH}`) return [[endpoint, CHAT_BODIES]]
    return [[endpoint, [...bodies(world, NEW_NAME), ...(FURTHER_BODIES[endpoint] ?? [])]]]
  })
}

export type Leaf = { path: string; replaced(value: string): unknown }

/** Returns every string of a JSON value, with a function that replaces it in a copy of the value. */
export function stringsOf(value: unknown, path = ''): Leaf[] {
  if (typeof value === 'string') return [{ path, replaced: (text) => text }]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, child]) =>
    stringsOf(child, Array.isArray(value) ? `${path}[]` : `${path}.${name}`).map((leaf) => ({
      path: leaf.path,
      replaced: (text: string) =>
        Array.isArray(value)
          ? value.map((entry, at) => (String(at) === name ? leaf.replaced(text) : entry))
          : { ...value, [name]: leaf.replaced(text) },
    })),
  )
}

function stringPaths(schema: JsonSchema, root: JsonSchema, path = ''): string[] {
  const inside = (one: JsonSchema | undefined, inPath = path) => (one ? stringPaths(one, root, inPath) : [])
  const named = schema.$ref === undefined ? undefined : definition(schema.$ref, root)
  const either = [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])].flatMap((one) => inside(one))
  const members = Object.entries(schema.properties ?? {}).flatMap(([name, one]) => inside(one, `${path}.${name}`))
  // An id contains only hex digits, so it cannot contain hostile text.
  const isId = schema.pattern === '^[0-9a-fA-F]{24}$'
  const own = [schema.type].flat().includes('string') && !isId ? [path] : []
  return [...new Set([...inside(named), ...either, ...members, ...inside(schema.items, `${path}[]`), ...own])]
}

/** The paths of all strings in a schema, except ids. */
export function stringsIn(schema: z.ZodType): string[] {
  const root = toInputSchema(schema)
  return stringPaths(root, root)
}
