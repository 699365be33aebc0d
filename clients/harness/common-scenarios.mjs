// The scenarios of a client whose functions are those of an SDK: ask, stream, run tools, ask for an object.
import { STOP } from './answers.mjs'

const text = (given) => ({ kind: 'text', text: given })

/**
 * Builds the scenarios from four functions.
 * @param {object} client
 * @param {(ctx, question) => Promise<object>} client.ask sends one question: `{parts, system?, maxTokens?, stop?, cached?}`.
 * A part is `{kind: 'text', text}`, `{kind: 'image', bytes}`, `{kind: 'address', url}` or `{kind: 'pdf', bytes}`
 * @param {(ctx, question) => Promise<object>} client.read as `ask`, streamed. Calls `question.onPiece` after each piece
 * with a function that cancels the stream
 * @param {(ctx, question) => Promise<object>} client.runTools runs the tool `ctx.data.stepTool` until the model answers
 * @param {(ctx, question) => Promise<object>} client.askObject asks for an object of the schema `ctx.data.person`
 * @param {boolean} [client.hasStop] false: the client limits the tokens instead
 * @param {Record<string, string>} [missing] why the client has no such scenario
 */
export function commonScenarios({ ask, read, runTools, askObject, hasStop = true }, missing = {}) {
  const question = (ctx, said, ...parts) => ({ parts: [text(ctx.prompt(said)), ...parts] })
  const steps = (ctx) => runTools(ctx, question(ctx, 'Do all steps.'))
  return {
    chat: (ctx) => ask(ctx, question(ctx, 'Hi')),
    stream: (ctx) => read(ctx, question(ctx, 'Hi')),
    'tools-10': steps,
    'tools-300': steps,
    parallel: steps,
    structured: (ctx) => askObject(ctx, question(ctx, 'Who is it?')),
    'image-data': (ctx) => ask(ctx, question(ctx, 'What is this?', { kind: 'image', bytes: ctx.data.png })),
    'image-url': (ctx) => ask(ctx, question(ctx, 'What is this?', { kind: 'address', url: ctx.data.pngUrl })),
    pdf: (ctx) => ask(ctx, question(ctx, 'What is this?', { kind: 'pdf', bytes: ctx.data.pdf })),
    'text-600k': (ctx) => ask(ctx, question(ctx, ctx.data.text600k)),
    'body-4m': (ctx) => ask(ctx, question(ctx, 'What is this?', { kind: 'image', bytes: ctx.data.png4m })),
    'max-tokens': (ctx) => ask(ctx, { ...question(ctx, 'Hi'), maxTokens: 16_000 }),
    async caching(ctx) {
      const turn = () => ask(ctx, { ...question(ctx, 'Hi'), system: ctx.data.longSystem, cached: true })
      await turn()
      return turn()
    },
    stop: (ctx) => ask(ctx, { ...question(ctx, 'Count.'), ...(hasStop ? { stop: STOP } : { maxTokens: 50 }) }),
    cancel: (ctx) => read(ctx, { ...question(ctx, 'Hi'), onPiece: (cancel) => cancel() }),
    broken: (ctx) => read(ctx, question(ctx, 'Hi')),
    ...missing,
  }
}

/** The data URL of a part with bytes. */
export const dataUrlOf = ({ kind, bytes }) =>
  `data:${kind === 'pdf' ? 'application/pdf' : 'image/png'};base64,${bytes.toString('base64')}`
