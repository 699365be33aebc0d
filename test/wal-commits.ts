// Counts the write transactions of a SQLite store. Every transaction ends with one commit frame in the write-ahead log.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

const HEADER_BYTES = 32
const FRAME_HEADER_BYTES = 24

/** Returns the number of commits in the log (https://sqlite.org/fileformat2.html#walformat). */
export async function countCommits(dataDir: string): Promise<number> {
  const log = await readFile(join(dataDir, 'aigw.db-wal'))
  const frameBytes = FRAME_HEADER_BYTES + log.readUInt32BE(8)
  const salts = log.subarray(16, 24)
  let commits = 0
  for (let at = HEADER_BYTES; at + frameBytes <= log.length; at += frameBytes) {
    const isCurrent = log.subarray(at + 8, at + 16).equals(salts)
    if (isCurrent && log.readUInt32BE(at + 4) > 0) commits += 1
  }
  return commits
}
