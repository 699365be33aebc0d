// Everyday requests and documents whose author did not know the rules of the shield. Neither training nor thresholds use
// them.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { scanText } from '../../../../../src/daemon/safety/guards/shield/scan.ts'
import type { TextSource } from '../../../../../src/daemon/safety/guards/shield/source.ts'

const FIXTURES = join(import.meta.dirname, '../../../../fixtures/shield')
const MOST_BLOCKED = 0.005

test.each(['office-requests.jsonl', 'office-documents.jsonl'])('at most 0.5 % of %s are blocked', (file) => {
  const rows = readFileSync(join(FIXTURES, file), 'utf8').trim().split('\n')
  const blocked = rows.filter((line) => {
    const { text, source = 'user' } = JSON.parse(line) as { text: string; source?: TextSource }
    return scanText(text, { source }).verdict === 'BLOCK'
  })
  expect(blocked.length, blocked.join('\n')).toBeLessThanOrEqual(Math.floor(rows.length * MOST_BLOCKED))
})
