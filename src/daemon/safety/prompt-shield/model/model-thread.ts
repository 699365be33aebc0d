// The thread that runs the operator's model. It may be terminated at any moment.
import { parentPort, workerData } from 'node:worker_threads'
import type { FromModelThread, ModelSettings, ToModelThread } from './messages.ts'
import { loadScorer } from './scorer.ts'

const port = parentPort
if (port === null) throw new Error('this file runs as a worker thread only')
const send = (message: FromModelThread) => port.postMessage(message)

const score = await loadScorer(workerData as ModelSettings)
port.on('message', async ({ id, texts }: ToModelThread) => {
  try {
    send({ kind: 'scored', id, scores: await score(texts) })
  } catch (error) {
    send({ kind: 'failed', id, error })
  }
})
send({ kind: 'ready' })
