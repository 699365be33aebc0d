import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createSourceCodeDetector } from '../../../../src/daemon/guards/dlp/source-code.ts'
import { expectIncremental } from '../incremental.ts'

const detector = createSourceCodeDetector()

const PROGRAMS: Readonly<Record<string, string>> = {
  TypeScript: `import { open } from './store.ts'

export function total(rows: Row[]): number {
  let sum = 0
  for (const row of rows) {
    sum += row.price * row.count
  }
  return sum
}`,
  Python: `import json

def load(path):
    with open(path) as file:
        data = json.load(file)
    if not data:
        raise ValueError("empty")
    return data["rows"]`,
  SQL: `SELECT name, total
FROM accounts
WHERE total > 100
UPDATE accounts SET total = 0 WHERE closed;
INSERT INTO log (name, at) VALUES ('x', now());
CREATE TABLE old (id integer);
DELETE FROM accounts WHERE closed;
ALTER TABLE old ADD COLUMN name text;`,
  C: `#include <stdio.h>
#define LIMIT 10

int main(void) {
  int count = 0;
  while (count < LIMIT) {
    printf("%d\\n", count);
    count += 1;
  }
  return 0;
}`,
}

const PROSE = `We met on Monday to speak about the plan for the next quarter.
The team is going to look at three things first.
Costs have to come down, and the delivery dates have to hold.
Nobody was against it, although two people had questions.
We will meet again in two weeks.
Until then everybody writes down what they need.
The minutes go to all of us, as always.
Thank you for coming, and have a good week.`

describe('source code', () => {
  test.each(Object.entries(PROGRAMS))('in %s', (_, program) => {
    const text = `Look at this:\n\n${program}\n\nWhat is wrong with it, and how would you mend it today?`
    const findings = detector.find(text)
    expect(findings).toHaveLength(1)
    const { start = 0, end = 0 } = findings[0] ?? {}
    expect((end - start) / program.length).toBeGreaterThan(0.7)
  })

  test.each([
    PROSE,
    'x = 1',
    'Use `npm install`, then run it.',
    '- one\n- two\n- three\n- four\n- five\n- six\n- seven',
  ])('not in %j', (text) => expect(detector.find(text)).toEqual([]))

  test('in pieces', () => {
    for (const text of [PROSE, ...Object.values(PROGRAMS)]) expectIncremental(detector, `${text}\n\nThe end of it all.`)
  })

  test('in pieces of any lines', () => {
    const lines = [...Object.values(PROGRAMS), PROSE].flatMap((text) => text.split('\n'))
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...lines, ''), { maxLength: 16 }), (some) =>
        expectIncremental(detector, some.join('\n')),
      ),
      { numRuns: 30 },
    )
  })
})
