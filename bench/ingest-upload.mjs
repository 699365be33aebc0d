// Runs in a separate process. Trains an index with one file UPLOADS times, or until SIGTERM. Each upload ends with
// different bytes, because the gateway skips unchanged files. Prints the numbers of completed trainings and passages as
// JSON. Run: node bench/ingest-upload.mjs URL KEY INDEX FILE UPLOADS
import { openAsBlob } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const [url, key, index, file, uploads] = process.argv.slice(2)
const target = `${url}/api/external/indexes/${index}/train`
const PAUSE_MS = 250
const blob = await openAsBlob(file)
let stopped = false
process.on('SIGTERM', () => {
  stopped = true
})

const done = { trainings: 0, passages: 0, statuses: {}, seconds: 0 }
for (let at = 0; at < Number(uploads) && !stopped; at++) {
  const form = new FormData()
  form.append('files', new Blob([blob, `\n${process.pid} ${at}`]), `${at % 5}-${path.basename(file)}`)
  const startedAt = performance.now()
  const response = await fetch(target, { method: 'POST', headers: { authorization: `Bearer ${key}` }, body: form })
  const { results } = await response.json()
  done.trainings++
  done.passages += results?.total_chunks ?? 0
  done.seconds += (performance.now() - startedAt) / 1000
  await sleep(PAUSE_MS)
  done.statuses[response.status] = (done.statuses[response.status] ?? 0) + 1
}
process.stdout.write(JSON.stringify(done))
