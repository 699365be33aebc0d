import { failureOf, programOf, runAgent, write } from './harness/terminal.mjs'

const TOOL = { tool: 'exec_command', input: { cmd: 'echo step $step' } }

/** Everything that Codex would call besides the model is turned off. */
const configOf = ({ url, model }) => `
model = "${model}"
model_provider = "gateway"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[analytics]
enabled = false

[feedback]
enabled = false

[otel]
exporter = "none"
trace_exporter = "none"
metrics_exporter = "none"

[model_providers.gateway]
name = "gateway"
base_url = "${url}/v1"
env_key = "GATEWAY_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
`

function exec(ctx, prompt, { args = [], resume = [], onEvent } = {}) {
  write(ctx, 'codex/config.toml', configOf(ctx))
  const command = {
    program: programOf('.bin/codex'),
    args: ['exec', ...resume, '--skip-git-repo-check', '--json', ...args, '-'],
    env: { CODEX_HOME: `${ctx.scratch}/codex`, GATEWAY_KEY: ctx.apiKey },
    input: prompt,
  }
  return runAgent(ctx, command, onEvent)
}

/** What the user of `codex exec --json` sees. */
function resultOf(seen) {
  const items = seen.events.filter(({ type }) => type === 'item.completed').map(({ item }) => item)
  const failed = seen.events.find(({ type }) => type === 'turn.failed')
  const done = seen.events.findLast(({ type }) => type === 'turn.completed')
  if (failed) return { error: failed.error.message }
  if (!done) return { error: failureOf(seen) }
  const { input_tokens: input, output_tokens: output, cached_input_tokens: cached } = done.usage
  return {
    text: items.findLast(({ type }) => type === 'agent_message')?.text,
    toolCalls: items.filter(({ type, exit_code }) => type === 'command_execution' && exit_code === 0).length,
    usage: { input, output, cached },
  }
}

const ask = async (ctx, text, more) => resultOf(await exec(ctx, ctx.prompt(text), more))
const steps = async (ctx) => resultOf(await exec(ctx, ctx.prompt('Do all steps.', TOOL)))
const showImage = (bytes) => (ctx) =>
  ask(ctx, 'What is this?', { args: ['-i', write(ctx, 'meadow.png', bytes(ctx.data))] })

export default {
  name: 'Codex',
  packages: ['@openai/codex'],
  interface: 'responses',
  scenarios: {
    chat: (ctx) => ask(ctx, 'Hi'),
    stream: (ctx) => ask(ctx, 'Hi'),
    'tools-10': steps,
    'tools-300': steps,
    parallel: steps,
    async structured(ctx) {
      const schema = write(ctx, 'person.json', ctx.data.person)
      const result = await ask(ctx, 'Who is it?', { args: ['--output-schema', schema] })
      return { ...result, object: JSON.parse(result.text) }
    },
    'image-data': showImage(({ png }) => png),
    'image-url': 'no: Codex accepts images only as files',
    pdf: 'no: Codex accepts only images',
    'text-600k': (ctx) => ask(ctx, ctx.data.text600k),
    'body-4m': 'no: Codex scales large images down, and compacts text of more than 1 MB',
    'max-tokens': 'no: Codex sends no limit of tokens',
    async caching(ctx) {
      await ask(ctx, ctx.data.longSystem)
      const { usage, ...result } = await ask(ctx, 'Hi', { resume: ['resume', '--last'] })
      return result
    },
    stop: 'no: Codex has neither stop sequences nor a limit of tokens',
    async cancel(ctx) {
      // Codex prints an answer only when it is complete.
      const onEvent = ({ type }, interrupt) => type === 'turn.started' && interrupt(2_000)
      const seen = await exec(ctx, ctx.prompt('Hi'), { onEvent })
      return { incomplete: seen.isInterrupted }
    },
    broken: (ctx) => ask(ctx, 'Hi'),
  },
}
