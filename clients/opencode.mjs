import { failureOf, programOf, runAgent, write } from './harness/terminal.mjs'

const TOOL = { tool: 'bash', input: { command: 'echo step $step', description: 'Does a step' } }

const configOf = ({ url, apiKey, model }, limit) => ({
  autoupdate: false,
  share: 'disabled',
  snapshot: false,
  model: `gateway/${model}`,
  small_model: `gateway/${model}`,
  permission: 'allow',
  provider: {
    gateway: {
      npm: '@ai-sdk/openai-compatible',
      name: 'gateway',
      options: { baseURL: `${url}/v1`, apiKey },
      models: {
        [model]: {
          attachment: true,
          modalities: { input: ['text', 'image', 'pdf'], output: ['text'] },
          limit: { context: 1_000_000, output: limit },
        },
      },
    },
  },
})

function run(ctx, prompt, { args = [], limit = 16_000, onEvent } = {}) {
  const command = {
    program: programOf('.bin/opencode'),
    // The title is given, because a request for it would count as an answer.
    args: ['run', '--format', 'json', '--auto', '--title', 'Test', ...args],
    env: {
      OPENCODE_CONFIG: write(ctx, 'opencode.json', configOf(ctx, limit)),
      OPENCODE_DISABLE_AUTOUPDATE: '1',
      OPENCODE_DISABLE_MODELS_FETCH: '1',
      OPENCODE_DISABLE_DEFAULT_PLUGINS: '1',
      OPENCODE_DISABLE_SHARE: '1',
    },
    input: prompt,
  }
  return runAgent(ctx, command, onEvent)
}

/** What a program that reads `--format json` sees. */
function resultOf(seen) {
  const failed = seen.events.find(({ type }) => type === 'error')
  if (failed) return { error: failed.error?.data?.message ?? JSON.stringify(failed.error) }
  const parts = (kind) => seen.events.filter(({ type }) => type === kind).map(({ part }) => part)
  const [text, finish] = [parts('text').at(-1), parts('step_finish').at(-1)]
  if (!finish) return { error: failureOf(seen) }
  const { input, output, cache } = finish.tokens
  return {
    text: text?.text,
    toolCalls: parts('tool_use').filter(({ state }) => state.status === 'completed').length,
    usage: { input: input + cache.read, output, cached: cache.read },
  }
}

const ask = async (ctx, text, more) => resultOf(await run(ctx, ctx.prompt(text), more))
const steps = async (ctx) => resultOf(await run(ctx, ctx.prompt('Do all steps.', TOOL)))
const showFile = (name, bytes) => (ctx) =>
  ask(ctx, 'What is this?', { args: ['--file', write(ctx, `work/${name}`, bytes(ctx.data))] })

/** opencode prints an answer only when it is complete. */
const interruptAfter = (ms) => (event, interrupt) => event.type === 'step_start' && interrupt(ms)

export default {
  name: 'opencode',
  packages: ['opencode-ai'],
  interface: 'chat',
  scenarios: {
    chat: (ctx) => ask(ctx, 'Hi'),
    stream: (ctx) => ask(ctx, 'Hi'),
    'tools-10': steps,
    'tools-300': steps,
    parallel: steps,
    structured: 'no: opencode has no output schema',
    'image-data': showFile('meadow.png', ({ png }) => png),
    'image-url': 'no: opencode accepts images only as files',
    pdf: showFile('mill.pdf', ({ pdf }) => pdf),
    'text-600k': (ctx) => ask(ctx, ctx.data.text600k),
    'body-4m': showFile('meadow.png', ({ png4m }) => png4m),
    'max-tokens': (ctx) => ask(ctx, 'Hi', { limit: 16_000 }),
    caching: 'no: opencode sends no prompt_cache_key to servers that are compatible with OpenAI',
    stop: (ctx) => ask(ctx, 'Count.', { limit: 50 }),
    async cancel(ctx) {
      const seen = await run(ctx, ctx.prompt('Hi'), { onEvent: interruptAfter(0) })
      return { incomplete: seen.isInterrupted }
    },
    async broken(ctx) {
      // It repeats the request without end.
      const seen = await run(ctx, ctx.prompt('Hi'), { onEvent: interruptAfter(4_000) })
      return { incomplete: seen.isInterrupted && seen.events.every(({ type }) => type === 'step_start') }
    },
  },
}
