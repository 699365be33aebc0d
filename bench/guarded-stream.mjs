// One answer after another through what streams one in the daemon, with output guards (POST /guarded) and without
// (POST /plain): provider, guard, frames. Nothing else of the daemon is in the way, so nothing else hides what guards cost.
//   node guarded-stream.mjs <origin of the upstream>
import http from 'node:http'
import { streamedAnswer } from '../dist/daemon/chat/answer.js'
import { openEventStream } from '../dist/daemon/http/sse.js'
import { openAiProvider } from '../dist/daemon/providers/openai/provider.js'
import { systemClock } from '../dist/shared/time.js'
import { createGuards } from './guard-sets.mjs'

const provider = openAiProvider(
  { name: 'mock', baseUrl: `${process.argv[2]}/v1`, apiKey: 'sk-upstream', headers: {}, models: undefined },
  { clock: systemClock },
)
const newGuard = createGuards(systemClock)
const envelope = { id: 'req-0', created: 0, model: 'mock/mock-model', metadata: {} }
const usage = { inputTokens: 0, outputTokens: 0 }
const timeouts = { attemptMs: 600_000, firstTokenMs: 60_000, stallMs: 60_000 }

const server = http.createServer(async (request, response) => {
  let question = ''
  for await (const piece of request) question += piece
  const guard = request.url === '/guarded' ? newGuard() : undefined
  const context = { response, openStream: () => openEventStream(response, {}) }
  const answer = streamedAnswer(envelope, context, false)
  const call = {
    model: 'mock-model',
    system: '',
    messages: [{ role: 'user', content: question }],
    grounding: null,
    temperature: undefined,
    maxTokens: 4000,
    stream: true,
    timeouts,
  }
  const { signal } = new AbortController()
  for await (const parts of provider.chat(call, signal)) {
    if (!answer.add(guard ? guard.pass(parts) : parts)) await answer.drained(signal)
  }
  answer.close('stop', usage)
  answer.send()
})
server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, () => {
  console.log(JSON.stringify({ msg: 'listening', url: `http://127.0.0.1:${server.address().port}` }))
})
process.on('SIGTERM', () => process.exit(0))
