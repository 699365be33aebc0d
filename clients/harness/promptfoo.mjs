// promptfoo: `promptfoo eval` in a process of its own, whose result is a JSON file.
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'

const CLI = path.join(import.meta.dirname, '../promptfoo/node_modules/promptfoo/dist/src/entrypoint.js')

/** Runs the CLI. Its exit code says whether all tests passed, so the result file decides. */
function run(args, { scratch, signal }) {
  const env = {
    PATH: process.env.PATH,
    HOME: scratch,
    PROMPTFOO_CONFIG_DIR: scratch,
    PROMPTFOO_DISABLE_TELEMETRY: '1',
    PROMPTFOO_DISABLE_UPDATE: '1',
    PROMPTFOO_DISABLE_REMOTE_GENERATION: '1',
    NO_COLOR: '1',
  }
  return new Promise((resolve) => {
    execFile(process.execPath, [CLI, ...args], { cwd: scratch, env, signal }, (_, stdout, stderr) =>
      resolve(`${stdout}\n${stderr}`),
    )
  })
}

function resultOf({ response, error }) {
  const { output, tokenUsage: tokens } = response ?? {}
  if (error || response?.error) return { error: error ?? response.error }
  return {
    ...(typeof output === 'object' ? { object: output } : { text: output }),
    ...(tokens?.prompt !== undefined && {
      usage: {
        input: tokens.prompt,
        output: tokens.completion,
        cached: tokens.completionDetails?.cacheReadInputTokens,
      },
    }),
  }
}

/**
 * Creates the client.
 * @param {object} options
 * @param {(ctx: object) => {id: string, config: object}} options.provider the provider of promptfoo
 * @param {object} options.parts how the interface writes an image, an address and a PDF
 * @param {object} options.settings the members of `config` for `limit`, `stop`, `person(schema)` and `cached`
 */
export function promptfoo({ name, spoken, provider, parts, settings }) {
  /** Asks `times` times and returns the last result. */
  async function ask(ctx, messages, { config = {}, times = 1 } = {}) {
    const { id, config: base } = provider(ctx)
    const at = (file) => path.join(ctx.scratch, file)
    await writeFile(at('prompt.json'), JSON.stringify(messages))
    const suite = {
      prompts: [`file://${at('prompt.json')}`],
      providers: [{ id, config: { ...base, ...config } }],
      tests: Array.from({ length: times }, (_, turn) => ({ vars: { turn } })),
    }
    await writeFile(at('config.json'), JSON.stringify(suite))
    const flags = ['--no-cache', '--no-write', '--no-table', '--no-progress-bar', '--max-concurrency', '1']
    const said = await run(['eval', '-c', at('config.json'), '-o', at('result.json'), ...flags], ctx)
    if (!existsSync(at('result.json'))) throw new Error(`promptfoo wrote no result: ${said}`)
    const { results } = JSON.parse(await readFile(at('result.json'), 'utf8'))
    return resultOf(results.results.at(-1))
  }

  const user = (content) => [{ role: 'user', content }]
  const askAbout = (ctx, part) => ask(ctx, user([parts.text(ctx.prompt('What is this?')), part]))
  const noResults = 'no: the client does not send results of tools back'
  const noStream = 'no: the client does not stream'

  return {
    name,
    packages: ['promptfoo'],
    interface: spoken,
    scenarios: {
      chat: (ctx) => ask(ctx, user(ctx.prompt('Hi'))),
      stream: noStream,
      'tools-10': noResults,
      'tools-300': noResults,
      parallel: noResults,
      structured: (ctx) => ask(ctx, user(ctx.prompt('Who?')), { config: settings.person(ctx.data.person) }),
      'image-data': (ctx) => askAbout(ctx, parts.image(ctx.data.png.toString('base64'))),
      'image-url': (ctx) => askAbout(ctx, parts.imageUrl(ctx.data.pngUrl)),
      pdf: (ctx) => askAbout(ctx, parts.pdf(ctx.data.pdf.toString('base64'))),
      'text-600k': (ctx) => ask(ctx, user(ctx.prompt(ctx.data.text600k))),
      'body-4m': (ctx) => askAbout(ctx, parts.image(ctx.data.png4m.toString('base64'))),
      'max-tokens': (ctx) => ask(ctx, user(ctx.prompt('Hi')), { config: settings.limit(16_000) }),
      caching: (ctx) =>
        ask(ctx, [settings.cached.message(ctx.data.longSystem), ...user(ctx.prompt('Hi'))], {
          config: settings.cached.config,
          times: 2,
        }),
      stop: (ctx) => ask(ctx, user(ctx.prompt('Count.')), { config: settings.stop }),
      cancel: noStream,
      broken: noStream,
    },
  }
}
