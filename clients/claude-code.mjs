import { failureOf, programOf, runAgent, write } from './harness/terminal.mjs'

const TOOL = { tool: 'Bash', input: { command: 'echo step $step', description: 'Does a step' } }

/** To newer models, it sends instructions inside the conversation, and adaptive thinking. */
const NEWEST = 'claude-opus-5'

/** So many texts of 600 KB are more than 4 MB. */
const LONG_TEXTS = 7

function run(ctx, content, { args = [], env = {}, onEvent } = {}) {
  const message = { type: 'user', message: { role: 'user', content } }
  const command = {
    program: programOf('.bin/claude'),
    args: [
      ...['--print', '--verbose', '--dangerously-skip-permissions', '--strict-mcp-config'],
      ...['--input-format', 'stream-json', '--output-format', 'stream-json', '--include-partial-messages'],
      ...args,
    ],
    env: {
      ANTHROPIC_BASE_URL: ctx.url,
      ANTHROPIC_AUTH_TOKEN: ctx.apiKey,
      ANTHROPIC_MODEL: ctx.model,
      // Without this variable, it refuses to run tools as root.
      IS_SANDBOX: '1',
      CLAUDE_CODE_MAX_RETRIES: '0',
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      DISABLE_AUTOUPDATER: '1',
      DISABLE_TELEMETRY: '1',
      DISABLE_ERROR_REPORTING: '1',
      ...env,
    },
    input: `${JSON.stringify(message)}\n`,
  }
  return runAgent(ctx, command, onEvent)
}

/** What a program that reads `--output-format stream-json` sees. */
function resultOf(seen) {
  const result = seen.events.findLast(({ type }) => type === 'result')
  if (!result) return { error: failureOf(seen) }
  if (result.is_error) return { error: result.result ?? result.errors?.join() }
  const deltas = seen.events.filter(({ type, event }) => type === 'stream_event' && event.delta?.type === 'text_delta')
  const results = seen.events
    .filter(({ type }) => type === 'user')
    .flatMap(({ message }) => (Array.isArray(message.content) ? message.content : []))
    .filter(({ type, is_error: isError }) => type === 'tool_result' && !isError)
  const { input_tokens: fresh, cache_read_input_tokens: cached, cache_creation_input_tokens: written } = result.usage
  return {
    text: result.result,
    toolCalls: results.length,
    pieces: deltas.length,
    object: result.structured_output,
    usage: { input: fresh + cached + written, output: result.usage.output_tokens, cached },
  }
}

const text = (given) => ({ type: 'text', text: given })
const base64 = (bytes, media_type) => ({ type: 'base64', media_type, data: bytes.toString('base64') })
const ask = async (ctx, given, more) => resultOf(await run(ctx, [text(ctx.prompt(given))], more))
const show = async (ctx, block) => resultOf(await run(ctx, [block, text(ctx.prompt('What is this?'))]))
const steps = async (ctx) => resultOf(await run(ctx, [text(ctx.prompt('Do all steps.', TOOL))]))

export default {
  name: 'Claude Code',
  packages: ['@anthropic-ai/claude-code'],
  interface: 'messages',
  scenarios: {
    chat: (ctx) => ask(ctx, 'Hi'),
    stream: (ctx) => ask(ctx, 'Hi'),
    'tools-10': (ctx) => steps({ ...ctx, model: NEWEST }),
    'tools-300': steps,
    parallel: steps,
    async structured(ctx) {
      const prompt = ctx.prompt('Who is it?', { tool: 'StructuredOutput' })
      return resultOf(await run(ctx, [text(prompt)], { args: ['--json-schema', JSON.stringify(ctx.data.person)] }))
    },
    'image-data': (ctx) => show(ctx, { type: 'image', source: base64(ctx.data.png, 'image/png') }),
    'image-url': (ctx) => show(ctx, { type: 'image', source: { type: 'url', url: ctx.data.pngUrl } }),
    pdf: (ctx) => show(ctx, { type: 'document', source: base64(ctx.data.pdf, 'application/pdf') }),
    'text-600k': (ctx) => ask(ctx, ctx.data.text600k),
    // Claude Code scales large images down.
    async 'body-4m'(ctx) {
      const texts = Array.from({ length: LONG_TEXTS }, () => text(ctx.data.text600k))
      return resultOf(await run(ctx, [...texts, text(ctx.prompt('Hi'))]))
    },
    'max-tokens': (ctx) => ask(ctx, 'Hi', { env: { CLAUDE_CODE_MAX_OUTPUT_TOKENS: '16000' } }),
    async caching(ctx) {
      const args = ['--append-system-prompt-file', write(ctx, 'system.txt', ctx.data.longSystem)]
      await ask(ctx, 'Hi', { args })
      return ask(ctx, 'Hi', { args: [...args, '--continue'] })
    },
    stop: 'no: Claude Code has no stop sequences, and an answer that its limit of tokens cuts off is an error',
    async cancel(ctx) {
      const onEvent = ({ event }, interrupt) => event?.delta?.type === 'text_delta' && interrupt()
      const seen = await run(ctx, [text(ctx.prompt('Hi'))], { onEvent })
      return { incomplete: seen.isInterrupted }
    },
    broken: (ctx) => ask(ctx, 'Hi'),
  },
}
