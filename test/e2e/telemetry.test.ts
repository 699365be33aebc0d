import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { runDaemon } from './daemon-process.ts'

/** Runs a daemon until it listens. Returns the URLs of all scripts that its main thread has loaded. */
async function scriptsOf(env: Record<string, string>): Promise<string[]> {
  const home = await mkdtemp(join(tmpdir(), 'aigw-telemetry-'))
  try {
    const coverage = join(home, 'coverage')
    const args = ['--listen', '127.0.0.1:0', '--data-dir', join(home, 'data')]
    const daemon = runDaemon(args, { home, env: { ...env, NODE_V8_COVERAGE: coverage } })
    await daemon.url()
    await daemon.end('SIGTERM')
    const files = await readdir(coverage)
    const reports = await Promise.all(
      files.map(async (file) => JSON.parse(await readFile(join(coverage, file), 'utf8'))),
    )
    return reports.flatMap(({ result }) => result.map(({ url }: { url: string }) => url))
  } finally {
    await rm(home, { recursive: true, force: true })
  }
}

test('the SDK of OpenTelemetry is loaded only with an endpoint', async () => {
  const isSdk = (url: string) => url.includes('@opentelemetry')
  const without = await scriptsOf({})
  expect(without.length).toBeGreaterThan(0)
  expect(without.filter(isSdk)).toEqual([])
  // The control: this test would see the SDK.
  const withEndpoint = await scriptsOf({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9' })
  expect(withEndpoint.filter(isSdk).length).toBeGreaterThan(10)
})
