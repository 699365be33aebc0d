import { expect, test } from 'vitest'
import { armForName, armForText, withFileNames } from '../../../../src/daemon/safety/guards/documents.ts'
import { createPiiDetector } from '../../../../src/daemon/safety/guards/pii/detector.ts'
import { armRules, type PlannedRule } from '../../../../src/daemon/safety/guards/plan.ts'
import { screenText } from '../../../../src/daemon/safety/guards/redaction.ts'
import { POLICY_ACTIONS, type PolicyAction } from '../../../../src/shared/wire/policies.ts'

const rule = (action: PolicyAction, enforced = true): PlannedRule => ({
  ...{ kind: 'pii', ruleId: 'r', ruleName: 'R', category: 'c', severity: 'low', direction: 'input' },
  ...{ detector: createPiiDetector({ entities: ['EMAIL', 'CREDIT_CARD'] }), action, enforced },
})
const actions = (arm: typeof armForText, enforced?: boolean) =>
  POLICY_ACTIONS.flatMap((action) =>
    arm(armRules([rule(action, enforced)], 'input')).map(({ actionOf }) => [action, actionOf('EMAIL')]),
  )

test("a document is stored with values that only prompts must not contain, and its name never becomes another's", () => {
  expect(actions(armForText)).toEqual([
    ['log', 'log'],
    ['mask', 'mask'],
    ['remove', 'remove'],
    ['tokenize', 'log'],
    ['block', 'block'],
  ])
  expect(actions(armForName)).toEqual([
    ['log', 'log'],
    ['mask', 'tokenize'],
    ['remove', 'tokenize'],
    ['tokenize', 'log'],
    ['block', 'block'],
  ])
  for (const arm of [armForText, armForName]) {
    expect(actions(arm, false).map(([, done]) => done)).toEqual(Array(POLICY_ACTIONS.length).fill('log'))
  }
})

test.each([
  ['ada@example.com.txt', '***@e******.com.txt', 1],
  ['ada@example.com', '***@e******.com', 1],
  ['of ada@example.com and bob@example.com.pdf', 'of ***@e******.com and ***@e******.com.pdf', 2],
  ['4111111111111111.csv', '************1111.csv', 1],
  ['otters.txt', 'otters.txt', 0],
  ['.txt', '.txt', 0],
])('the part of a file name before its extension is found once: %s', (name, shown, count) => {
  const armed = { guard: '0', detector: rule('mask').detector, actionOf: () => 'mask' as const }
  const { text, hits } = screenText(name, 'text', [withFileNames(armed)])
  expect([text, hits.reduce((sum, hit) => sum + hit.count, 0)]).toEqual([shown, count])
})
