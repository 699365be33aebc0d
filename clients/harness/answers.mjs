// What the simulated model answers in each scenario. An answer depends only on the mark and on the facts of the request.

/** The texts that the client's user must see. */
export const TEXT = {
  chat: 'The answer is 42: naïve, 漢字 ✓.',
  stream: 'These words arrive one after the other, as a model writes them: naïve, 漢字 ✓.',
  parallel: 'All three steps are done.',
  person: '{"name":"Ada","age":36}',
  image: 'The image shows a meadow.',
  pdf: 'The document describes a mill.',
  long: 'The text describes a road.',
  cached: 'The instructions are long.',
  stopped: 'One, two, three, ',
  cut: 'This answer is as long as the limit of tokens',
  whole: 'Half of this answer arrives, and then the connection of the provider ends without any further notice.',
}

/** How long the model thinks before its first word. The gateway sends keep-alives every second (gateway.mjs). */
const PAUSE_MS = 2_500
/** The stop sequence of the scenario `stop`. */
export const STOP = 'STOP_HERE'
export const PERSON = JSON.parse(TEXT.person)
export const PARALLEL_CALLS = 3
/** The number of steps of a scenario with tool turns. */
export const stepsOf = (scenario) => Number(/^tools-(\d+)$/.exec(scenario)?.[1])
export const stepsText = (steps) => `All ${steps} steps are done.`

const say = (text, more) => ({ text, calls: [], finish: 'stop', ...more })

function fill(value, step) {
  if (typeof value === 'string') return value.replaceAll('$step', String(step))
  if (Array.isArray(value)) return value.map((entry) => fill(entry, step))
  if (value && typeof value === 'object')
    return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, fill(entry, step)]))
  return value
}

/** Calls of the tool that the mark names, or of `do_step`. The ids tell the steps apart. */
function call({ cell, options = {} }, { tools }, steps) {
  const wanted = options.tool ?? 'do_step'
  // Some clients put a prefix before the names of their tools.
  const name = tools.find((tool) => tool === wanted) ?? tools.find((tool) => tool.endsWith(wanted))
  if (!name) return say(`The tool ${wanted} is not offered.`)
  const calls = steps.map((step) => ({
    id: `call_${cell.replaceAll('-', '_')}_${step}`,
    name,
    input: options.input ? fill(options.input, step) : { step },
  }))
  return { text: '', calls, finish: 'calls' }
}

const ANSWERS = {
  chat: () => say(TEXT.chat),
  stream: () => say(TEXT.stream, { mode: 'paced' }),
  pause: () => say(TEXT.stream, { mode: 'paced', pauseMs: PAUSE_MS }),
  parallel: (mark, facts) =>
    facts.results.length === 0
      ? call(
          mark,
          facts,
          Array.from({ length: PARALLEL_CALLS }, (_, at) => at + 1),
        )
      : say(facts.results.length === PARALLEL_CALLS ? TEXT.parallel : `I have ${facts.results.length} results.`),
  structured(mark, facts) {
    if (facts.hasSchema) return say(TEXT.person)
    const tool = mark.options.tool ?? facts.forcedTool ?? facts.tools[0]
    if (!tool) return say('The request has no schema.')
    if (facts.results.length > 0) return say(TEXT.person)
    return {
      text: '',
      calls: [{ id: `call_${mark.cell.replaceAll('-', '_')}`, name: tool, input: PERSON }],
      finish: 'calls',
    }
  },
  'image-data': () => say(TEXT.image),
  'image-url': () => say(TEXT.image),
  pdf: () => say(TEXT.pdf),
  'text-600k': () => say(TEXT.long),
  'body-4m': () => say(TEXT.image),
  'max-tokens': () => say(TEXT.chat),
  caching: () => say(TEXT.cached),
  stop: (_, { stop, maxTokens }) => {
    if (stop.includes(STOP)) return say(TEXT.stopped, { finish: 'stop_sequence', stopSequence: STOP })
    return maxTokens < 100 ? say(TEXT.cut, { finish: 'length' }) : say(`${TEXT.stopped}${STOP}, four.`)
  },
  cancel: () => say('', { mode: 'slow' }),
  broken: () => say(TEXT.whole, { mode: 'break' }),
}

/** The answer to one request. A request without a mark, such as a client's own side request, gets a short text. */
export function answerOf(mark, facts) {
  const steps = stepsOf(mark.scenario)
  if (!Number.isNaN(steps)) {
    // Clients ask for titles and summaries without tools.
    if (facts.tools.length === 0) return say('A title.')
    return facts.results.length < steps ? call(mark, facts, [facts.results.length + 1]) : say(stepsText(steps))
  }
  return (ANSWERS[mark.scenario] ?? (() => say('Hello.')))(mark, facts)
}
