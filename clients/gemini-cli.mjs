import { failureOf, programOf, runAgent, write } from './harness/terminal.mjs'

const TOOL = { tool: 'run_shell_command', input: { command: 'echo step $step' } }

/** Everything that Gemini CLI would call besides the model is turned off. */
const settingsOf = (model, options) => ({
  general: { enableAutoUpdate: false, enableAutoUpdateNotification: false, maxAttempts: 1 },
  security: { auth: { selectedType: 'gemini-api-key' }, folderTrust: { enabled: false } },
  privacy: { usageStatisticsEnabled: false },
  telemetry: { enabled: false },
  model: { disableLoopDetection: true },
  ...(options && {
    modelConfigs: { customOverrides: [{ match: { model }, modelConfig: { generateContentConfig: options } }] },
  }),
})

function run(ctx, prompt, { args = [], options, onEvent } = {}) {
  write(ctx, 'home/.gemini/settings.json', settingsOf(ctx.model, options))
  const command = {
    program: process.execPath,
    args: [programOf('.bin/gemini'), '--model', ctx.model, '--output-format', 'stream-json', '--yolo', ...args],
    env: {
      GOOGLE_GEMINI_BASE_URL: ctx.url,
      GEMINI_API_KEY: ctx.apiKey,
      GEMINI_CLI_TRUST_WORKSPACE: 'true',
      GEMINI_CLI_NO_RELAUNCH: 'true',
    },
    input: prompt,
  }
  return runAgent(ctx, command, onEvent)
}

/** What a program that reads `--output-format stream-json` sees. */
function resultOf(seen) {
  const result = seen.events.findLast(({ type }) => type === 'result')
  if (result?.status !== 'success') return { error: result?.error?.message ?? failureOf(seen) }
  const pieces = seen.events.filter(({ type, role }) => type === 'message' && role === 'assistant')
  const { input_tokens: input, output_tokens: output, cached } = result.stats
  return {
    text: pieces.map(({ content }) => content).join(''),
    pieces: pieces.length,
    toolCalls: seen.events.filter(({ type, status }) => type === 'tool_result' && status === 'success').length,
    usage: { input, output, cached },
  }
}

const ask = async (ctx, text, more) => resultOf(await run(ctx, ctx.prompt(text), more))
const steps = async (ctx) => resultOf(await run(ctx, ctx.prompt('Do all steps.', TOOL)))
const showFile = (name, bytes) => (ctx) => {
  write(ctx, `work/${name}`, bytes(ctx.data))
  return ask(ctx, `What is @${name} ?`)
}

export default {
  name: 'Gemini CLI',
  packages: ['@google/gemini-cli'],
  interface: 'gemini',
  scenarios: {
    chat: (ctx) => ask(ctx, 'Hi'),
    stream: (ctx) => ask(ctx, 'Hi'),
    'tools-10': steps,
    'tools-300': steps,
    parallel: steps,
    structured: 'no: Gemini CLI has no output schema',
    'image-data': showFile('meadow.png', ({ png }) => png),
    'image-url': 'no: Gemini CLI accepts images only as files',
    pdf: showFile('mill.pdf', ({ pdf }) => pdf),
    'text-600k': (ctx) => ask(ctx, ctx.data.text600k),
    'body-4m': showFile('meadow.png', ({ png4m }) => png4m),
    'max-tokens': (ctx) => ask(ctx, 'Hi', { options: { maxOutputTokens: 16_000 } }),
    async caching(ctx) {
      await ask(ctx, ctx.data.longSystem)
      return ask(ctx, 'Hi', { args: ['--resume', 'latest'] })
    },
    stop: (ctx) => ask(ctx, 'Count.', { options: { stopSequences: ['STOP_HERE'] } }),
    async cancel(ctx) {
      const onEvent = ({ role }, interrupt) => role === 'assistant' && interrupt()
      const seen = await run(ctx, ctx.prompt('Hi'), { onEvent })
      return { incomplete: seen.isInterrupted }
    },
    broken: (ctx) => ask(ctx, 'Hi'),
  },
}
