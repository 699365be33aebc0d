import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Log } from './log.ts'

const NOTIFY_TIMEOUT_MS = 5_000

/**
 * Reports a state to systemd, such as `READY=1` (sd_notify(3)). Does nothing without NOTIFY_SOCKET, that is, outside of
 * a `Type=notify` unit. Never throws, because the daemon must serve even if it cannot report its state. Node cannot
 * send datagrams to a socket path, so systemd's own program sends them.
 */
export async function notifySystemd(
  states: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  log: Log,
): Promise<void> {
  if (!env.NOTIFY_SOCKET) return
  try {
    await promisify(execFile)('systemd-notify', [...states], { env: { ...env }, timeout: NOTIFY_TIMEOUT_MS })
  } catch (error) {
    log.warn({ states, error }, 'systemd could not be notified')
  }
}
