import { describe, expect, test } from 'vitest'
import { createPainter, mayColour } from '../../../src/cli/output/colour.ts'

const may = (env: Record<string, string>, isTerminal: boolean, flag?: string) => mayColour({ flag, env, isTerminal })

describe('whether to colour', () => {
  test.each([
    ['a terminal', {}, true, undefined, true],
    ['a pipe', {}, false, undefined, false],
    ['NO_COLOR on a terminal', { NO_COLOR: '1' }, true, undefined, false],
    ['an empty NO_COLOR, which counts as unset', { NO_COLOR: '' }, true, undefined, true],
    ['NO_COLOR against FORCE_COLOR', { NO_COLOR: '1', FORCE_COLOR: '1' }, true, undefined, false],
    ['FORCE_COLOR into a pipe', { FORCE_COLOR: '1' }, false, undefined, true],
    ['FORCE_COLOR=0 on a terminal', { FORCE_COLOR: '0' }, true, undefined, false],
    ['FORCE_COLOR=false on a terminal', { FORCE_COLOR: 'false' }, true, undefined, false],
    ['CLICOLOR_FORCE into a pipe', { CLICOLOR_FORCE: '1' }, false, undefined, true],
    ['CLICOLOR_FORCE=0 on a terminal', { CLICOLOR_FORCE: '0' }, true, undefined, false],
    ['CLICOLOR=0 on a terminal', { CLICOLOR: '0' }, true, undefined, false],
    ['CLICOLOR=1 into a pipe', { CLICOLOR: '1' }, false, undefined, false],
    ['TERM=dumb', { TERM: 'dumb' }, true, undefined, false],
    ['--color always against everything', { NO_COLOR: '1', TERM: 'dumb' }, false, 'always', true],
    ['--color never against everything', { FORCE_COLOR: '3', CLICOLOR_FORCE: '1' }, true, 'never', false],
    ['--color auto on a terminal', {}, true, 'auto', true],
  ])('%s', (_, env, isTerminal, flag, expected) => {
    expect(may(env, isTerminal, flag)).toBe(expected)
  })

  test('a painter without colour changes nothing', async () => {
    expect((await createPainter(false)).red('x')).toBe('x')
    expect((await createPainter(true)).red('x')).toBe('\x1b[31mx\x1b[39m')
  })
})
