import Anthropic from '@anthropic-ai/sdk'
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema'
import OpenAI from 'openai'
import { expect, test } from 'vitest'
import { type Gateway, sharedGateway } from '../../../harness.ts'
import { chatJson, chatStream, replyJson, replySteps } from '../../../upstream.ts'

/** The number of tool calls before the model answers. */
const TURNS = 120
const QUESTION = 'How many steps are there?'
const ANSWER = `There are ${TURNS} steps.`
const usage = { prompt_tokens: 9, completion_tokens: 4, total_tokens: 13 }

const shared = sharedGateway()

type SentMessage = { role: string; content: string; tool_call_id?: string; tool_calls?: { id: string }[] }

/**
 * A model that calls its tool until it has TURNS results. It rejects a conversation whose results do not match its
 * calls and their
 * order.
 */
function callTools({ upstream }: Gateway): void {
  upstream.fallback(async (exchange) => {
    const { messages, stream } = exchange.request.body as { messages: SentMessage[]; stream: boolean }
    const results = messages.filter(({ role }) => role === 'tool')
    const isWhole = results.every(
      ({ tool_call_id: id, content }, at) => id === `call_${at + 1}` && content.startsWith(`Step ${at + 1} is done.`),
    )
    if (!isWhole || messages.length !== 1 + 2 * results.length) {
      await replyJson({ error: { message: 'the conversation is not whole' } }, { status: 400 })(exchange)
      return
    }
    if (results.length === TURNS) {
      await (stream ? replySteps([chatStream([ANSWER], { usage })]) : replyJson(chatJson(ANSWER, { usage })))(exchange)
      return
    }
    const step = results.length + 1
    const call = {
      id: `call_${step}`,
      type: 'function',
      function: { name: 'do_step', arguments: JSON.stringify({ step }) },
    }
    if (!stream) {
      const message = { role: 'assistant', content: null, tool_calls: [call] }
      await replyJson({ choices: [{ index: 0, message, finish_reason: 'tool_calls' }], usage })(exchange)
      return
    }
    const delta = { tool_calls: [{ index: 0, ...call }] }
    const first = `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`
    await replySteps([first, chatStream([], { finishReason: 'tool_calls', usage })])(exchange)
  })
}

const SCHEMA = { type: 'object' as const, properties: { step: { type: 'integer' } } }
const DO_STEP = { name: 'do_step', description: 'Does one step', input_schema: SCHEMA }

/** The result of the tool; some results are as long as a file that an agent reads. */
const resultOf = (step: number) => `Step ${step} is done. ${'It took a while. '.repeat(step % 10 === 0 ? 100 : 5)}`

function expectWholeLoop(gateway: Gateway, asked: number, steps: readonly number[]): void {
  expect(steps).toEqual(Array.from({ length: TURNS }, (_, at) => at + 1))
  expect(gateway.upstream.requests.length - asked).toBe(TURNS + 1)
  const last = gateway.upstream.requests.at(-1)?.body
  expect((last as { messages: object[] }).messages).toHaveLength(1 + 2 * TURNS)
}

test.each([false, true])(
  "an agent of OpenAI's SDK takes 120 turns, streaming: %s",
  { timeout: 120_000 },
  async (stream) => {
    const gateway = shared.current
    callTools(gateway)
    const asked = gateway.upstream.requests.length
    const steps: number[] = []
    const client = new OpenAI({ apiKey: gateway.adminKey, baseURL: `${gateway.url}/v1`, maxRetries: 0 })
    const request = {
      model: 'test/any',
      messages: [{ role: 'user' as const, content: QUESTION }],
      tools: [
        {
          type: 'function' as const,
          function: {
            name: 'do_step',
            description: 'Does one step',
            parameters: SCHEMA,
            parse: (text: string) => JSON.parse(text) as { step: number },
            function: ({ step }: { step: number }) => {
              steps.push(step)
              return resultOf(step)
            },
          },
        },
      ],
    }
    const limits = { maxChatCompletions: TURNS + 1 }
    const runner = stream
      ? client.chat.completions.runTools({ ...request, stream: true }, limits)
      : client.chat.completions.runTools(request, limits)
    expect(await runner.finalContent()).toBe(ANSWER)
    expectWholeLoop(gateway, asked, steps)
  },
)

test.each([false, true])(
  "an agent of Anthropic's SDK takes 120 turns, streaming: %s",
  { timeout: 120_000 },
  async (stream) => {
    const gateway = shared.current
    callTools(gateway)
    const asked = gateway.upstream.requests.length
    const steps: number[] = []
    const client = new Anthropic({ apiKey: gateway.adminKey, baseURL: gateway.url, maxRetries: 0 })
    const request = { model: 'test/any', max_tokens: 16_000, tools: [DO_STEP] }
    const messages: Anthropic.MessageParam[] = [{ role: 'user', content: QUESTION }]
    const ask = () =>
      stream
        ? client.messages.stream({ ...request, messages }).finalMessage()
        : client.messages.create({ ...request, messages })
    let answer = await ask()
    while (answer.stop_reason === 'tool_use') {
      const results = answer.content.flatMap((block) => {
        if (block.type !== 'tool_use') return []
        const { step } = block.input as { step: number }
        steps.push(step)
        return [{ type: 'tool_result' as const, tool_use_id: block.id, content: resultOf(step) }]
      })
      messages.push({ role: 'assistant', content: answer.content }, { role: 'user', content: results })
      answer = await ask()
    }
    expect(answer.content).toMatchObject([{ type: 'text', text: ANSWER }])
    expectWholeLoop(gateway, asked, steps)
  },
)

// The runner continues a message thread with only its new turn, and sends all turns if the server has none.
test("the tool runner of Anthropic's SDK takes 120 turns without a thread", { timeout: 120_000 }, async () => {
  const gateway = shared.current
  callTools(gateway)
  const asked = gateway.upstream.requests.length
  const steps: number[] = []
  const client = new Anthropic({ apiKey: gateway.adminKey, baseURL: gateway.url, maxRetries: 0 })
  const doStep = betaTool({
    name: 'do_step',
    description: 'Does one step',
    inputSchema: { ...SCHEMA, properties: { step: { type: 'integer' } }, required: ['step'] },
    run: ({ step }) => {
      steps.push(step)
      return resultOf(step)
    },
  })
  const runner = client.beta.messages.toolRunner({
    model: 'test/any',
    max_tokens: 16_000,
    max_iterations: TURNS + 1,
    messages: [{ role: 'user', content: QUESTION }],
    tools: [doStep],
  })
  expect((await runner.runUntilDone()).content).toMatchObject([{ type: 'text', text: ANSWER }])
  expectWholeLoop(gateway, asked, steps)
})
