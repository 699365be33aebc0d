import { expect, test } from 'vitest'
import { createPieces } from '../../../../../src/daemon/gateway/surfaces/gemini/parts.ts'

test('a call without arguments is whole in a complete answer, and omitted in one that was cut off', () => {
  for (const outcome of ['complete', 'cut'] as const) {
    const pieces = createPieces({ showsThoughts: false })
    pieces.add({ type: 'tool_call', index: 0, id: 'c', name: 'look', arguments: '' })
    pieces.add({ type: 'end', outcome: outcome === 'complete' ? 'complete' : 'length' } as never)
    expect(pieces.take().parts).toEqual(
      outcome === 'complete' ? [{ functionCall: { id: 'c', name: 'look', args: {} } }] : [],
    )
  }
})
