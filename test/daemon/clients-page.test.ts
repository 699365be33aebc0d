import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Gateway, startGateway, upstreamProvider } from '../harness.ts'
import { sharedResources } from '../shared-resources.ts'
import { chatJson, chatStream, replyJson, replyRaw, startUpstream, type Upstream } from '../upstream.ts'

const run = promisify(execFile)
const ROOT = join(import.meta.dirname, '../..')
const read = (page: string) => readFileSync(join(ROOT, page), 'utf8')
const PAGE = read('docs/how-to/connect-clients.md')
const REFERENCE = read('docs/clients.md')
const usage = { prompt_tokens: 11, completion_tokens: 5 }

/** Each program of the page with its documented output. */
const EXAMPLES = [...PAGE.matchAll(/```js\n(.*?)```\n\n```text\n(.*?)```/gs)].map(([, code = '', printed = '']) => ({
  code,
  printed,
  imports: [...code.matchAll(/from '(.+?)'/g)].map(([, name]) => name).join(', '),
}))

let gateway: Gateway
let upstream: Upstream

beforeAll(async () => {
  upstream = await startUpstream()
  upstream.fallback((exchange) => {
    const { path, body } = exchange.request
    if (path.endsWith('/embeddings')) return replyJson({ data: [{ index: 0, embedding: [0.5, -0.25] }] })(exchange)
    const { stream } = body as { stream: boolean }
    return (stream ? replyRaw(chatStream(['Hel', 'lo.'], { usage })) : replyJson(chatJson('Hello.', { usage })))(
      exchange,
    )
  })
  const names = ['openai', 'mistral']
  gateway = await startGateway({ providers: names.map((name) => upstreamProvider(name, upstream.url)) })
  sharedResources.add(gateway)
})

afterAll(async () => {
  sharedResources.delete(gateway)
  await gateway.close()
  await upstream.close()
})

test.each(EXAMPLES)('the example with $imports prints its documented output', async ({ code, printed }) => {
  const program = code.replaceAll('http://127.0.0.1:8787', gateway.url)
  const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', program], {
    cwd: ROOT,
    env: { ...process.env, AIGW_API_KEY: gateway.adminKey },
  })
  expect(stdout).toBe(printed)
})

test('the page has an example for each kind of client, and every program on it is run', () => {
  expect(EXAMPLES.map(({ imports }) => imports)).toEqual([
    'openai',
    'openai',
    'openai',
    'openai',
    '@anthropic-ai/sdk',
    '@anthropic-ai/sdk',
    '@langchain/openai',
    '@ai-sdk/openai-compatible, ai',
  ])
  expect(`${PAGE}${REFERENCE}`.split('```js\n').length - 1).toBe(EXAMPLES.length)
})

test('every route on the page exists', async () => {
  for (const [, method = '', path = ''] of REFERENCE.matchAll(/^\| `(GET|POST) (\/v1\/\S+)`/gm)) {
    const named = path.replace('<provider>/<model>', 'openai/gpt-4o')
    expect((await gateway.call(method, named, method === 'POST' ? {} : undefined)).status).not.toBe(404)
  }
})
