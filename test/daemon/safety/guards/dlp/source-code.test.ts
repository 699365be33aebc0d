import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createSourceCodeDetector } from '../../../../../src/daemon/safety/guards/dlp/source-code.ts'
import { screenText } from '../../../../../src/daemon/safety/guards/redaction.ts'
import { createOutputGuard } from '../../../../../src/daemon/safety/guards/stream/output-guard.ts'
import { expectIncremental } from '../incremental.ts'
import { cutAnywhere, END, runGuard, saidBy } from '../stream/answers.ts'

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

describe('source code in a stream', () => {
  const masking = [{ guard: 'dlp', detector, actionOf: () => 'mask' as const }]
  const stream = (pieces: readonly string[]) => {
    const { out, moments } = runGuard(createOutputGuard({ armed: masking }), [
      ...pieces.map((text) => [{ type: 'text', text } as const]),
      [END],
    ])
    return { said: saidBy(out).get('text') ?? '', moments: moments.map((moment) => moment.get('text') ?? '') }
  }
  const tokensOf = (text: string): string[] => text.match(/\s?\S{1,6}|\s/g) ?? []
  const fenced = `Look at this:\n\n\`\`\`ts\n${PROGRAMS.TypeScript}\n\`\`\`\nWhat is wrong with it, and how would you mend it today?`

  test('prose in one line is released while it arrives', () => {
    const { said, moments } = stream(tokensOf(PROSE.replaceAll('\n', ' ')))
    expect(said).toBe(PROSE.replaceAll('\n', ' '))
    for (const [at, moment] of moments.slice(0, -1).entries()) {
      const received = tokensOf(PROSE.replaceAll('\n', ' '))
        .slice(0, at + 1)
        .join('')
      expect(received.length - moment.length).toBeLessThanOrEqual(64)
    }
  })

  test('a fenced block is masked completely in any pieces, and text around it is released', () => {
    const expected = screenText(fenced, 'text', masking).text
    expect(expected).toMatch(/^Look at this:\n\n```ts\n\[SOURCE_CODE\]\n```\nWhat is wrong/)
    fc.assert(
      fc.property(fc.array(fc.nat(), { maxLength: 30 }), fc.boolean(), (cuts, isSingle) => {
        expect(stream(isSingle ? [...fenced] : cutAnywhere(fenced, cuts)).said).toBe(expected)
      }),
      { numRuns: 40 },
    )
    const { moments } = stream(tokensOf(fenced))
    expect(moments.some((moment) => moment === 'Look at this:\n\n```ts\n')).toBe(true)
  })

  test('without a fence the line that completes a block proves it: everything not yet released is masked', () => {
    for (const program of Object.values(PROGRAMS)) {
      const whole = `Look at this.\n\n${program}\n\nWhat is wrong with it, and how would you mend it today?`
      const { said } = stream(tokensOf(whole))
      expect(said).toMatch(/^Look at this\.\n\n/)
      expect(said).toContain('[SOURCE_CODE]')
      expect(said.split('[SOURCE_CODE]')).toHaveLength(2)
      expect(said).toMatch(/What is wrong with it, and how would you mend it today\?$/)
      expect(said).not.toContain(
        program
          .split('\n')
          .filter((line) => line.trim() !== '')
          .slice(6)
          .join('\n'),
      )
    }
  })

  test('a long program without a fence is masked to its end', () => {
    const program = Array.from({ length: 120 }, (_, at) => `const row${at} = rows[${at}];`).join('\n')
    const { said } = stream(tokensOf(`Here it is.\n${program}\nThat was all of it, as you can see.`))
    expect(said).toMatch(/That was all of it, as you can see\.$/)
    for (let at = 10; at < 115; at++) expect(said).not.toContain(`row${at} `)
  })

  test('blocked code ends the answer before its end', () => {
    const guard = createOutputGuard({ armed: [{ ...masking[0], actionOf: () => 'block' } as never] })
    expect(() => {
      for (const token of tokensOf(fenced)) guard.pass([{ type: 'text', text: token }])
    }).toThrow('blocked')
  })
})
