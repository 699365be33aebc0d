import { beforeAll, describe, expect, test } from 'vitest'
import type { Format } from '../../../../src/daemon/knowledge/ingest/extract/format.ts'
import { endpointOf } from '../../../../src/daemon/platform/http/route.ts'
import { CHAT_PATH } from '../../../../src/shared/wire/chat.ts'
import { COMPLETIONS_PATH } from '../../../../src/shared/wire/completions.ts'
import {
  BATCH_EMBED_CONTENTS_PATH,
  EMBED_CONTENT_PATH,
  GEMINI_COUNT_TOKENS_PATH,
  GENERATE_CONTENT_PATH,
  STREAM_GENERATE_CONTENT_PATH,
} from '../../../../src/shared/wire/gemini.ts'
import { TextInputs } from '../../../../src/shared/wire/indexes.ts'
import { COUNT_TOKENS_PATH, MESSAGES_PATH } from '../../../../src/shared/wire/messages.ts'
import { MODERATIONS_PATH } from '../../../../src/shared/wire/moderations.ts'
import { OPENAI_CHAT_PATH, OPENAI_EMBEDDINGS_PATH } from '../../../../src/shared/wire/openai.ts'
import { RERANK_PATH } from '../../../../src/shared/wire/rerank.ts'
import { RESPONSES_PATH } from '../../../../src/shared/wire/responses.ts'
import { bodiesOf, stringsIn, stringsOf } from '../../../contract/rights/body-strings.ts'
import type { World } from '../../../contract/rights/world.ts'
import { sharedGateway } from '../../../harness.ts'
import { addGuardedTenant } from '../../gateway/chat/guarded-tenant.ts'
import { docx, paragraph, pdf, workbook } from '../../knowledge/ingest/extract/files.ts'
import { MULTIPART, multipart, type TestPart } from '../../knowledge/ingest/multipart.ts'
import { ADDRESS_SPELLINGS, GROUP_SPELLINGS, SPELLINGS } from './view/spellings.ts'

const PERSONAL = 'Write to ada.lovelace@analytical.org'

/** Personal data in spellings that a search for its usual form misses. */
const SPELLED = [
  ...[...SPELLINGS, ...GROUP_SPELLINGS].flatMap(({ name, write }) => [
    ['CREDIT_CARD', name, write('4111-1111-1111-1111')] as const,
    ['IBAN', name, write('DE89 3704 0044 0532 0130 00')] as const,
    ['US_SSN', name, write('536-90-4399')] as const,
  ]),
  ...[...SPELLINGS, ...ADDRESS_SPELLINGS].map(
    ({ name, write }) => ['EMAIL', name, write('ada.lovelace@analytical.org')] as const,
  ),
]
const SPELLINGS_PER_FIELD = 4

/** Routes whose text reaches a model. */
const ENDPOINTS = [
  ...[CHAT_PATH, OPENAI_CHAT_PATH, OPENAI_EMBEDDINGS_PATH, RESPONSES_PATH, MESSAGES_PATH, COUNT_TOKENS_PATH],
  ...[COMPLETIONS_PATH, MODERATIONS_PATH, RERANK_PATH, GENERATE_CONTENT_PATH, STREAM_GENERATE_CONTENT_PATH],
  ...[GEMINI_COUNT_TOKENS_PATH, EMBED_CONTENT_PATH, BATCH_EMBED_CONTENTS_PATH],
].map((path) => `POST ${path}`)

/** Strings that are not prompts, on every route: the model, the rules, the caller and the format. */
const NO_TEXT: readonly RegExp[] = [
  // Models and their failover settings.
  /^\.(model|models\[\](\.model)?|fallback_models\[\](\.model)?|redundancy\.(on\[\]|commit))$/,
  // The settings that govern the call, and their owners.
  /^\.(index|smltp_policy|prompt_shield\.policy|user_id|conversation_id|user|safety_identifier|metadata\.user_id)$/,
  // Members that are dropped, returned to the caller or rejected, and that no model receives.
  /^\.(previous_response_id|include\[\]|truncation|input\[\]\.(status|phase))$/,
  // Keywords of the API.
  /(^|\.)(type|role|effort|reasoning_effort|encoding_format|modalities\[\]|tool_choice|detail|syntax|mode|function_call|input_audio\.format)$/,
  /\.(responseMimeType|responseModalities\[\]|thinkingLevel|taskType|generateContentRequest\.model)$/,
  // Ids and names of tools, formats and schemas.
  /\.(tool_call_id|tool_use_id|call_id|file_id|id|name|namespace|tool_calls\[\]\.function\.name)$/,
  // The lifetime and the scope of a cache entry.
  /\.cache_control\.(ttl|scope)$/,
  // Images, and data that a model has signed or encrypted. Each has a form of its own; other values are inspected
  // (`UNSEALED`) or rejected (`MALFORMED`).
  /\.(url|fileUri|image_url|file_url|file_data|media_type|mimeType|data|signature|origin|encrypted_content)$/,
]
const isText = (path: string) => !NO_TEXT.some((pattern) => pattern.test(path))

const tool = (parameters: object) => [{ type: 'function', function: { name: 'look', parameters } }]
const asked = [{ role: 'user', content: 'hi' }]

const userSends = (...content: object[]) => ({ messages: [{ role: 'user', content }] })
const modelSaid = (...content: object[]) => ({ messages: [...asked, { role: 'assistant', content }, ...asked] })
const found = { type: 'search_result', source: 'a', title: 'a', content: [{ type: 'text', text: PERSONAL }] }
const plain = (data: string) => ({ type: 'document', source: { type: 'text', media_type: 'text/plain', data } })

/** Texts in blocks and members of Anthropic's own API. */
const NATIVE_TEXTS: Record<string, object> = {
  'the text of a document': userSends(plain(PERSONAL)),
  'an unknown member of a document': userSends({ ...plain('Otters.'), note: PERSONAL }),
  'a document in a tool result': userSends({ type: 'tool_result', tool_use_id: 'c', content: [plain(PERSONAL)] }),
  'a search result in a tool result': userSends({ type: 'tool_result', tool_use_id: 'c', content: [found] }),
  'the address of an image': userSends({
    type: 'image',
    source: { type: 'url', url: 'https://example.com/?to=ada.lovelace@analytical.org' },
  }),
  'a citation': modelSaid({ type: 'text', text: 'a', citations: [{ type: 'char_location', cited_text: PERSONAL }] }),
  'the call of a server tool': modelSaid({
    type: 'server_tool_use',
    id: 'srvtoolu_1',
    name: 'web_search',
    input: { query: PERSONAL },
  }),
  'the result of a server tool': modelSaid({
    type: 'web_search_tool_result',
    tool_use_id: 'srvtoolu_1',
    content: [{ type: 'web_search_result', title: PERSONAL, url: 'https://example.com', encrypted_content: 'e' }],
  }),
  'the id of a block': modelSaid({ type: 'container_upload', file_id: PERSONAL }),
  'a typed tool': { tools: [{ type: 'memory_20250818', name: 'memory', note: PERSONAL }] },
  'an example of a tool': { tools: [{ name: 'look', input_schema: {}, input_examples: [{ to: PERSONAL }] }] },
  'a member that the gateway does not know': {
    context_management: { edits: [{ type: 'compact_20260112', instructions: PERSONAL }] },
  },
  'a member of output_config': { output_config: { note: PERSONAL } },
  'a member of thinking': { thinking: { type: 'adaptive', note: PERSONAL } },
  'a text and a cited text': modelSaid(
    { type: 'text', text: PERSONAL.slice(0, 15) },
    { type: 'text', text: PERSONAL.slice(15), citations: [{ type: 'char_location', cited_text: 'a' }] },
  ),
  'two cited texts': userSends(
    { type: 'text', text: PERSONAL.slice(0, 15), citations: [{ type: 'char_location', cited_text: 'a' }] },
    { type: 'text', text: PERSONAL.slice(15), citations: [{ type: 'char_location', cited_text: 'b' }] },
  ),
}

const sealedHere = (step: object) => `aigw.${Buffer.from(JSON.stringify(step)).toString('base64url')}`
const searched = (result: object) =>
  modelSaid({ type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [result] })

/** Readable text in the place of signed, encrypted or base64 data, in Anthropic's API. */
const UNSEALED: Record<string, object> = {
  'encrypted thinking': modelSaid({ type: 'redacted_thinking', data: PERSONAL }, { type: 'text', text: 'a' }),
  'the signature of thinking': modelSaid({ type: 'thinking', thinking: 'Hm.', signature: PERSONAL }),
  'the sealed data of thinking': modelSaid({
    type: 'thinking',
    thinking: 'Hm.',
    signature: sealedHere({ origin: 'openai', data: PERSONAL }),
  }),
  'sealed data with a name': modelSaid({
    type: 'thinking',
    thinking: 'Hm.',
    signature: sealedHere({ origin: 'google', data: `${PERSONAL}:c2ln` }),
  }),
  'a sealed object': modelSaid({
    type: 'thinking',
    thinking: 'Hm.',
    signature: sealedHere({ origin: 'openai', data: JSON.stringify({ signature: 'c2ln', note: PERSONAL }) }),
  }),
  'encrypted content of a result': searched({ type: 'web_search_result', encrypted_content: PERSONAL }),
  'base64 data in a result': searched({ type: 'document', source: { type: 'base64', data: PERSONAL } }),
}

/** Texts in parts and members of OpenAI's own APIs. */
const OPENAI_TEXTS: Record<string, object> = {
  'the name of a user': { messages: [{ role: 'user', name: PERSONAL, content: 'hi' }] },
  'the name of the model': { messages: [...asked, { role: 'assistant', name: PERSONAL, content: 'hi' }, ...asked] },
  'the address of an image': userSends({
    type: 'image_url',
    image_url: { url: 'https://example.com/?to=ada.lovelace@analytical.org' },
  }),
  'a prediction': { prediction: { type: 'content', content: PERSONAL } },
  metadata: { metadata: { note: PERSONAL } },
  'the name of a cache': { prompt_cache_key: PERSONAL },
  'a member that the gateway does not know': { a_new_member: [{ deep: PERSONAL }] },
  'the name of a member': { a_new_member: { [PERSONAL]: 1 } },
}

const NEWER_TEXTS: Record<string, object> = {
  'the address of a file': {
    input: [
      {
        role: 'user',
        content: [{ type: 'input_file', file_url: 'https://example.com/?to=ada.lovelace@analytical.org' }],
      },
    ],
  },
  'a member of text': { text: { note: PERSONAL } },
  'a member that the gateway does not know': { a_new_member: [{ deep: PERSONAL }] },
}

/** Members with a form that leaves no room for text. */
const MALFORMED: [path: string, place: string, body: object][] = [
  [
    OPENAI_CHAT_PATH,
    'image_url',
    userSends({ type: 'image_url', image_url: { url: 'https://a.b/c', detail: PERSONAL } }),
  ],
  [OPENAI_CHAT_PATH, 'input_audio', userSends({ type: 'input_audio', input_audio: { data: PERSONAL, format: 'wav' } })],
  [
    OPENAI_CHAT_PATH,
    'input_audio',
    userSends({ type: 'input_audio', input_audio: { data: 'aGk=', format: PERSONAL } }),
  ],
  [OPENAI_CHAT_PATH, 'file', userSends({ type: 'file', file: { file_data: PERSONAL } })],
  [OPENAI_CHAT_PATH, 'file', userSends({ type: 'file', file: { file_data: `data:${PERSONAL};base64,aGk=` } })],
  [OPENAI_CHAT_PATH, 'reasoning_effort', { messages: asked, reasoning_effort: PERSONAL }],
  [RESPONSES_PATH, 'reasoning.effort', { input: 'hi', reasoning: { effort: PERSONAL } }],
  ...['image', 'document'].map((type): [string, string, object] => [
    MESSAGES_PATH,
    'media_type',
    { max_tokens: 5, ...userSends({ type, source: { type: 'base64', media_type: PERSONAL, data: 'aGk=' } }) },
  ]),
]

/** JSON of any form that reaches a model and has no further schema. */
const FREE_JSON: [endpoint: string, place: string, body: object][] = [
  [`POST ${OPENAI_CHAT_PATH}`, 'tools[].function.parameters', { messages: asked, tools: tool({ title: PERSONAL }) }],
  [
    `POST ${OPENAI_CHAT_PATH}`,
    'response_format.json_schema.schema',
    {
      messages: asked,
      response_format: { type: 'json_schema', json_schema: { name: 'a', schema: { title: PERSONAL } } },
    },
  ],
  [
    `POST ${RESPONSES_PATH}`,
    'tools[].parameters',
    { input: 'hi', tools: [{ type: 'function', name: 'look', parameters: { title: PERSONAL } }] },
  ],
  [
    `POST ${RESPONSES_PATH}`,
    'tools[].tools[].parameters',
    {
      input: 'hi',
      tools: [
        { type: 'namespace', name: 'n', tools: [{ type: 'function', name: 'look', parameters: { title: PERSONAL } }] },
      ],
    },
  ],
  [
    `POST ${RESPONSES_PATH}`,
    'text.format.schema',
    { input: 'hi', text: { format: { type: 'json_schema', name: 'a', schema: { title: PERSONAL } } } },
  ],
  [
    `POST ${MESSAGES_PATH}`,
    'tools[].input_schema',
    { max_tokens: 5, messages: asked, tools: [{ name: 'look', input_schema: { title: PERSONAL } }] },
  ],
  [
    `POST ${MESSAGES_PATH}`,
    'messages[].content[].input',
    {
      max_tokens: 5,
      messages: [
        ...asked,
        { role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'look', input: { to: PERSONAL } }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c', content: 'done' }] },
      ],
    },
  ],
  ...[PERSONAL, sealedHere({ origin: 'openai', data: PERSONAL })].map((encrypted_content): [string, string, object] => [
    `POST ${RESPONSES_PATH}`,
    'the encrypted content of reasoning',
    { input: [{ type: 'reasoning', summary: [], encrypted_content }, ...asked] },
  ]),
  ...Object.entries(OPENAI_TEXTS).map(([place, body]): [string, string, object] => [
    `POST ${OPENAI_CHAT_PATH}`,
    place,
    { messages: asked, ...body },
  ]),
  ...Object.entries(NEWER_TEXTS).map(([place, body]): [string, string, object] => [
    `POST ${RESPONSES_PATH}`,
    place,
    { input: 'hi', ...body },
  ]),
  ...[MESSAGES_PATH, COUNT_TOKENS_PATH].flatMap((path) =>
    Object.entries({ ...NATIVE_TEXTS, ...UNSEALED }).map(([place, body]): [string, string, object] => [
      `POST ${path}`,
      place,
      { ...(path === MESSAGES_PATH && { max_tokens: 5 }), messages: asked, ...body },
    ]),
  ),
]

describe('guards scan every text of every request', () => {
  const shared = sharedGateway()
  let post: (path: string, body: object) => Promise<{ status: number; text: string }>
  let bodies: [endpoint: string, bodies: unknown[]][]

  beforeAll(async () => {
    const settings = {
      dailyLimit: null,
      monthlyLimit: null,
      rateLimit: { requestsPerMinute: null, requestsPerHour: null },
    }
    const policy = { pii: { enabled: true, action: 'block' } }
    const guarded = await addGuardedTenant(shared.current, { policy, settings })
    post = guarded.post
    const made = await guarded.tenant.call('POST', '/api/external/indexes', { name: 'hostile' })
    expect(made.status).toBe(201)
    bodies = bodiesOf({ indexName: 'hostile' } as World)
  })

  /** As an authorized caller sends it, so that nothing is rejected before the guards. */
  function sendable(body: unknown): object {
    const { user_id, smltp_policy, prompt_shield, models, fallback_models, redundancy, ...others } = body as Record<
      string,
      unknown
    >
    const { previous_response_id, ...rest } = others
    return { ...rest, model: 'test/any' }
  }

  test.each(ENDPOINTS)('%s', async (endpoint) => {
    const route = shared.current.app.routes.find((one) => endpointOf(one) === endpoint)
    const texts = stringsIn(route?.body as NonNullable<typeof route>['body'] & object).filter(isText)
    expect(texts.length).toBeGreaterThan(0)
    const tried = (bodies.find(([known]) => known === endpoint)?.[1] ?? []).flatMap((body) => stringsOf(sendable(body)))
    const missed: unknown[] = []
    for (const path of texts) {
      const leaves = tried.filter((leaf) => leaf.path === path)
      for (const leaf of leaves) {
        const called = endpoint.slice('POST '.length).replace('{model}', 'test/any')
        const answer = await post(called, leaf.replaced(PERSONAL) as object)
        if (answer.status !== 403 || !answer.text.includes('EMAIL')) missed.push([path, answer.status, answer.text])
      }
      if (leaves.length === 0) missed.push([path, 'no body has it'])
    }
    expect(missed).toEqual([])
  })

  test.each(ENDPOINTS)('%s, in every spelling', async (endpoint) => {
    const route = shared.current.app.routes.find((one) => endpointOf(one) === endpoint)
    const texts = stringsIn(route?.body as NonNullable<typeof route>['body'] & object).filter(isText)
    const tried = (bodies.find(([known]) => known === endpoint)?.[1] ?? []).flatMap((body) => stringsOf(sendable(body)))
    const missed: unknown[] = []
    // Each field gets other spellings, so that together the fields get all of them several times.
    let next = ENDPOINTS.indexOf(endpoint)
    for (const path of texts) {
      const leaf = tried.find((one) => one.path === path)
      for (let count = 0; leaf && count < SPELLINGS_PER_FIELD; count++) {
        const [type, name, written] = SPELLED[next++ % SPELLED.length] as (typeof SPELLED)[number]
        const called = endpoint.slice('POST '.length).replace('{model}', 'test/any')
        const answer = await post(called, leaf.replaced(`It is ${written} today.`) as object)
        if (answer.status !== 403 || !answer.text.includes(type)) missed.push([path, type, name, answer.status])
      }
    }
    expect(missed).toEqual([])
  })

  test.each(FREE_JSON)('%s %s', async (endpoint, _, body) => {
    const answer = await post(endpoint.slice('POST '.length), { model: 'test/any', ...body })
    expect([answer.status, answer.text]).toEqual([403, expect.stringContaining('EMAIL')])
  })

  test.each(MALFORMED)('POST %s rejects a text as %s', async (path, place, body) => {
    const answer = await post(path, { model: 'test/any', ...body })
    expect([answer.status, answer.text]).toEqual([400, expect.stringMatching(place === 'media_type' ? /\w/ : place)])
  })

  test('and the model received none of it', () => {
    const sent = shared.current.upstream.requests.map(({ rawBody }) => rawBody).join()
    expect(sent).not.toContain('lovelace')
  })
})

const ADDRESS = 'ada.lovelace@analytical.org'

/** Every part of a file of each kind that may become a passage, with personal data only there. */
const FILES: Record<Format, Record<string, string | Buffer>> = {
  text: { text: PERSONAL },
  markdown: {
    text: PERSONAL,
    heading: `# ${PERSONAL}\n\nOtters.`,
    title: `---\ntitle: ${PERSONAL}\n---\n\nOtters.`,
    code: `\`\`\`\n${PERSONAL}\n\`\`\`\n\nOtters.`,
  },
  html: {
    text: `<p>${PERSONAL}`,
    title: `<title>${PERSONAL}</title><p>Otters.`,
    heading: `<h1>${PERSONAL}</h1><p>Otters.`,
    table: `<table><tr><th>Animal<tr><td>${PERSONAL}</table>`,
  },
  csv: { cell: `animal,note\notter,${PERSONAL}`, column: `animal,${PERSONAL}\notter,1` },
  json: { value: JSON.stringify({ note: PERSONAL }), name: JSON.stringify({ [PERSONAL]: 'otter' }) },
  pdf: { text: pdf([[PERSONAL]]), title: pdf([['Otters.']], { title: `${PERSONAL} today` }) },
  docx: { text: docx(paragraph(PERSONAL)), heading: docx(paragraph(PERSONAL, 'Heading1'), paragraph('Otters.')) },
  xlsx: {
    cell: workbook('xlsx', { Sheet: [['Note'], [PERSONAL]] }),
    column: workbook('xlsx', { Sheet: [[PERSONAL], ['otter']] }),
    sheet: workbook('xlsx', { [ADDRESS]: [['Note'], ['otter']] }),
  },
  xls: {
    cell: workbook('biff8', { Sheet: [['Note'], [PERSONAL]] }),
    sheet: workbook('biff8', { [ADDRESS]: [['Note'], ['otter']] }),
  },
}
const ENDINGS: Partial<Record<Format, string>> = { text: 'txt', markdown: 'md' }

describe('guards scan every text of every document', () => {
  const shared = sharedGateway()
  let train: (part: TestPart) => Promise<{ status: number; text: string }>
  let stored: () => Promise<unknown[]>

  beforeAll(async () => {
    const policy = { pii: { enabled: true, entities: ['EMAIL'], action: 'block' } }
    const { tenant, key } = await addGuardedTenant(shared.current, { policy })
    expect((await tenant.call('POST', '/api/external/indexes', { name: 'notes' })).status).toBe(201)
    const path = '/api/external/indexes/notes/train'
    train = (part) => shared.current.call('POST', path, multipart([part]), { key, headers: MULTIPART })
    stored = () => tenant.db.selectFrom('documents').select('source').where('tenant_id', '=', tenant.id).execute()
  })

  const places = Object.entries(FILES).flatMap(([kind, contents]) =>
    Object.entries(contents).map(([place, content]) => [kind as Format, place, content] as const),
  )
  test.each(places)('a file, %s: %s', async (kind, _, content) => {
    const answer = await train({ fileName: `otters.${ENDINGS[kind] ?? kind}`, content })
    expect([answer.status, answer.text]).toEqual([400, expect.stringContaining('(EMAIL)')])
    expect(answer.text).not.toContain('lovelace')
  })

  test('the name of a file', async () => {
    const answer = await train({ fileName: `${ADDRESS}.txt`, content: 'Otters.' })
    expect([answer.status, answer.text]).toEqual([400, expect.stringContaining('(EMAIL)')])
  })

  // A MIME type is not prompt text.
  test.each(stringsIn(TextInputs).filter((path) => path !== '[].type'))('text_inputs%s', async (path) => {
    const inputs = stringsOf([{ name: 'otters', content: 'Otters.' }]).find((leaf) => leaf.path === path)
    const answer = await train({ field: 'text_inputs', content: JSON.stringify(inputs?.replaced(PERSONAL)) })
    expect([answer.status, answer.text]).toEqual([400, expect.stringContaining('(EMAIL)')])
  })

  test('and none of it was stored', async () => {
    expect(await stored()).toEqual([])
  })
})
