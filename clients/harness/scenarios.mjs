// The scenarios: what the client's user, the provider and the gateway's receipts must show. Each check returns the
// first contradiction as a sentence, or undefined.
import { PARALLEL_CALLS, PERSON, STOP, stepsOf, stepsText, TEXT } from './answers.mjs'
import { data, sha256 } from './data.mjs'

const MAX_TOKENS = 16_000
/** The answers to requests with a mark, without counts of tokens and side requests of the client. */
const sum = (values) => values.reduce((total, value) => total + (value ?? 0), 0)
const show = (value) => JSON.stringify(value)?.slice(0, 200)

const isText =
  (expected) =>
  ({ result }) =>
    result.text?.trim() === expected.trim()
      ? undefined
      : `the user sees ${show(result.text)} instead of ${show(expected)}`

const some =
  (test, sentence) =>
  ({ received }) =>
    received.some(test) ? undefined : `the provider did not receive ${sentence}`

/** If the client reports usage of its only answer, it must be the provider's. */
const isCounted = ({ result: { usage }, received }) => {
  const answered = received.filter((request) => request.usage && !request.isCount)
  if (!usage || answered.length !== 1) return undefined
  const { input, output } = answered[0].usage
  if (usage.input === input && usage.output === output) return undefined
  return `the client reports ${usage.input} and ${usage.output} tokens instead of ${input} and ${output}`
}

const toolTurns = (scenario) => {
  const steps = stepsOf(scenario)
  return [
    isText(stepsText(steps)),
    ({ result: { toolCalls } }) =>
      toolCalls === undefined || toolCalls === steps
        ? undefined
        : `the client ran ${toolCalls} calls instead of ${steps}`,
    some(({ results }) => results.length === steps, `${steps} results`),
    ({ received }) => {
      const broken = received.find(({ results, extendsEarlier }) => results.length > 1 && extendsEarlier === false)
      return broken && `the conversation changed before result ${broken.results.length}, so prompt caches miss`
    },
  ]
}

/**
 * Every scenario: its column, the checks, and `ends: 'failure'` if its receipt must not be a success. The order is the
 * order of the columns.
 */
export const SCENARIOS = [
  { id: 'chat', title: 'chat', checks: [isText(TEXT.chat), isCounted] },
  {
    id: 'stream',
    title: 'stream',
    checks: [
      isText(TEXT.stream),
      isCounted,
      some(({ streamed }) => streamed, 'a request for a stream'),
      ({ result: { pieces } }) =>
        pieces === undefined || pieces > 3 ? undefined : `the text arrived in ${pieces} pieces`,
    ],
  },
  {
    id: 'pause',
    title: 'pause with keep-alives',
    checks: [isText(TEXT.stream), some(({ streamed }) => streamed, 'a request for a stream')],
  },
  { id: 'tools-10', title: '10 tool turns', checks: toolTurns('tools-10') },
  { id: 'tools-300', title: '300 tool turns', checks: toolTurns('tools-300'), isLong: true },
  {
    id: 'parallel',
    title: 'parallel tools',
    checks: [
      isText(TEXT.parallel),
      some(({ results }) => results.length === PARALLEL_CALLS, `${PARALLEL_CALLS} results`),
    ],
  },
  {
    id: 'structured',
    title: 'structured output',
    checks: [
      ({ result: { object } }) =>
        object?.name === PERSON.name && object?.age === PERSON.age ? undefined : `the object is ${show(object)}`,
      some(({ hasSchema, forcedTool, tools }) => hasSchema || forcedTool || tools.length > 0, 'the schema'),
    ],
  },
  {
    id: 'image-data',
    title: 'image (data)',
    checks: [isText(TEXT.image), some(({ images }) => images.includes(sha256(data.png)), 'the bytes of the image')],
  },
  {
    id: 'image-url',
    title: 'image (address)',
    checks: [isText(TEXT.image), some(({ imageAddresses }) => imageAddresses.includes(data.pngUrl), 'the address')],
  },
  {
    id: 'pdf',
    title: 'PDF',
    checks: [isText(TEXT.pdf), some(({ files }) => files.includes(sha256(data.pdf)), 'the bytes of the PDF')],
  },
  {
    id: 'text-600k',
    title: '600 KB text',
    checks: [isText(TEXT.long), some(({ hasLongText }) => hasLongText, 'the whole text')],
  },
  {
    id: 'body-4m',
    title: '4 MB body',
    checks: [
      isText(TEXT.image),
      // Agents scale large images down, so they send text.
      some(({ images, hasLongText }) => hasLongText || images.includes(sha256(data.png4m)), 'the bytes of the image'),
      some(({ bodyBytes }) => bodyBytes > 4_000_000, 'a body of 4 MB'),
    ],
  },
  {
    id: 'max-tokens',
    title: '`max_tokens` 16,000',
    checks: [isText(TEXT.chat), some(({ maxTokens }) => maxTokens === MAX_TOKENS, `max_tokens ${MAX_TOKENS}`)],
  },
  {
    id: 'caching',
    title: 'prompt caching',
    checks: [
      isText(TEXT.cached),
      // Gemini caches without being asked.
      ({ received, interface: name }) =>
        name === 'gemini' || received.some(({ cacheMarks, cacheKey }) => cacheMarks > 0 || cacheKey)
          ? undefined
          : 'the provider did not receive cache_control or prompt_cache_key',
      some(({ usage }) => usage?.cached > 0, 'the same prefix twice'),
      ({ result: { usage }, received }) => {
        const cached = received.findLast((request) => request.usage)?.usage.cached
        return usage?.cached === undefined || usage.cached === cached
          ? undefined
          : `the client reports ${usage.cached} cached tokens instead of ${cached}`
      },
    ],
  },
  {
    id: 'stop',
    title: 'stop',
    checks: [
      some(({ stop, maxTokens }) => stop.includes(STOP) || maxTokens < 100, 'the stop sequence or the limit'),
      ({ result: { text } }) =>
        [TEXT.stopped.trim(), TEXT.cut].includes(text?.trim()) ? undefined : `the user sees ${show(text)}`,
    ],
  },
  {
    id: 'cancel',
    title: 'cancel',
    ends: 'failure',
    mayFail: true,
    checks: [some(({ isAborted }) => isAborted, 'the end of the connection')],
  },
  {
    id: 'broken',
    title: 'broken stream',
    ends: 'failure',
    mayFail: true,
    checks: [
      ({ result }) =>
        result.error || result.incomplete
          ? undefined
          : `the client reports the half answer ${show(result.text)} as complete`,
    ],
  },
]

/** What the receipts of one cell must say. */
function receiptProblem({ ends = 'success' }, receipts, received) {
  const requests = received.filter(({ isCount }) => !isCount)
  if (receipts.length === 0) return 'the gateway has no receipt'
  const chats = receipts.filter(({ operation }) => operation === 'chat.completion')
  // A client that leaves may leave before its retry reaches the provider.
  if (chats.length < requests.length && ends === 'success')
    return `the gateway has ${chats.length} receipts for ${requests.length} requests`
  const wrong = chats.find(({ result }) => result !== ends)
  if (wrong) return `a receipt says ${wrong.result} (${wrong.error ?? wrong.metadata?.ending}) instead of ${ends}`
  if (ends !== 'success') return undefined
  const fields = {
    input: 'input_tokens',
    output: 'output_tokens',
    cached: 'cache_read_tokens',
    written: 'cache_write_tokens',
  }
  for (const [name, field] of Object.entries(fields)) {
    const counted = sum(chats.map(({ usage }) => usage?.[field]))
    const expected = sum(requests.map(({ usage }) => usage?.[name]))
    if (counted !== expected) return `the receipts count ${counted} for ${field} instead of ${expected}`
  }
  return undefined
}

/**
 * Judges one cell from three sides.
 * @param {{result: object, received: object[], receipts?: object[], interface: string}} seen `receipts` is absent if the
 * client was connected to the provider itself
 * @returns {string | undefined} the first contradiction
 */
export function problemOf(scenario, { result, received, receipts, interface: name }) {
  if (result.error && !scenario.mayFail) return `the client fails: ${show(result.error)}`
  const fault = received.find((request) => request.fault)
  if (fault) return `the conversation is not whole: ${fault.fault}`
  for (const check of scenario.checks) {
    const problem = check({ result, received, interface: name })
    if (problem) return problem
  }
  return receipts && receiptProblem(scenario, receipts, received)
}
