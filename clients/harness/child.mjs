// Runs the scenarios of one client in a process of its own: node child.mjs FILE [LOADER]. Requests and results are IPC messages.
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { data, doStep } from './data.mjs'
import { markedPrompt } from './prompt.mjs'

const [, , file, loader = path.join(import.meta.dirname, 'load.mjs')] = process.argv
const { load, versionOf } = await import(pathToFileURL(loader).href)
const { default: client } = await import(pathToFileURL(file).href)
// A client does the same in both. Only the provider differs.
const scenarios = { pause: client.scenarios.stream, ...client.scenarios }

function describe() {
  const { name, packages, interface: spoken } = client
  const reasons = Object.entries(scenarios).map(([id, run]) => [id, typeof run === 'string' ? run : true])
  return {
    name,
    interface: spoken,
    packages: Object.fromEntries(packages.map((one) => [one, versionOf(one)])),
    scenarios: Object.fromEntries(reasons),
  }
}

async function run({ scenario, cell, url, apiKey, model, timeoutMs }) {
  const scratch = mkdtempSync(path.join(os.tmpdir(), 'aigw-client-'))
  const ctx = {
    url,
    apiKey,
    model,
    prompt: (text, options) => markedPrompt(text, { scenario, cell, options }),
    data,
    doStep,
    scratch,
    signal: AbortSignal.timeout(timeoutMs),
    load,
  }
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no result within ${timeoutMs / 1000} s`)), timeoutMs)
  })
  try {
    return await Promise.race([scenarios[scenario](ctx), late])
  } catch (error) {
    return {
      error: `${error?.name ?? 'Error'}: ${error?.message ?? error}`.slice(0, 500),
      stack: error?.stack?.slice(0, 2000),
    }
  } finally {
    clearTimeout(timer)
    rmSync(scratch, { recursive: true, force: true })
  }
}

// A client that leaks a rejection must not end the process.
process.on('unhandledRejection', (error) => process.stderr.write(`unhandled: ${error?.stack ?? error}\n`))
process.on('uncaughtException', (error) => process.stderr.write(`uncaught: ${error?.stack ?? error}\n`))
process.on('message', async (job) => process.send({ cell: job.cell, result: await run(job) }))
process.on('disconnect', () => process.exit())
process.send({ client: describe() })
