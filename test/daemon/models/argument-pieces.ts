import fc from 'fast-check'

/** Arguments of a tool call, any JSON object, split at random into the pieces of a stream; or none. */
export const argumentPieces: fc.Arbitrary<string[]> = fc.oneof(
  fc.constant<string[]>([]),
  fc
    .tuple(fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue()), fc.array(fc.nat(60)))
    .map(([value, offsets]) => {
      const text = JSON.stringify(value)
      const cuts = [0, ...offsets.filter((at) => at < text.length).sort((a, b) => a - b)]
      return cuts.map((at, position) => text.slice(at, cuts[position + 1]))
    }),
)
