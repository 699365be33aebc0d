// Logs the given number of lines after its input ends, while libuv's threads are busy, and exits as the daemon does.
import { pbkdf2 } from 'node:crypto'
import { once } from 'node:events'
import { createLog } from '../../../src/daemon/platform/log.ts'

const THREADS = 4
await once(process.stdin.resume(), 'end')
const log = createLog('info')
for (let thread = 0; thread < THREADS; thread++) pbkdf2('a', 'b', 400_000, 64, 'sha512', () => {})
for (let number = 0; number < Number(process.argv[2]); number++) log.info({ number }, 'line')
await log.flush()
process.exit(0)
