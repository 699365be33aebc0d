// Writes docs/openapi.json from the routes of a daemon that uses a temporary directory. Tests compare the file with a
// running daemon. Run: npm run openapi
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startApp } from '../dist/daemon/app.js'
import { openApiDocument } from '../dist/daemon/platform/http/openapi.js'
import { systemClock } from '../dist/shared/time.js'

const target = fileURLToPath(new URL('../docs/openapi.json', import.meta.url))
const dataDir = await mkdtemp(join(tmpdir(), 'aigw-openapi-'))
const quiet = { debug() {}, info() {}, warn() {}, error() {} }
const app = await startApp(
  {
    listen: { host: '127.0.0.1', port: 0 },
    dataDir,
    database: { kind: 'sqlite' },
    bootstrapKey: undefined,
    providers: [],
    log: { level: 'silent' },
    drainTimeoutMs: 0,
  },
  { clock: systemClock, log: quiet },
)
await writeFile(target, `${JSON.stringify(openApiDocument(app.routes), null, 2)}\n`)
await app.close()
await rm(dataDir, { recursive: true })
