// A second process for data-dir-lock.test.ts: locks the given directory, reports it, and stays alive.
import { lockDataDir } from '../../../../src/daemon/platform/db/data-dir-lock.ts'

const [dataDir = ''] = process.argv.slice(2)
try {
  const lock = await lockDataDir(dataDir)
  await lock.describe({ url: 'http://127.0.0.1:8787' })
  process.stdout.write('locked\n')
  process.stdin.once('end', () => lock.release())
  process.stdin.resume()
} catch (error) {
  process.stdout.write(`${String(error)}\n`)
  process.exitCode = 1
}
