/**
 * Appends items to a list. Use it instead of `push(...items)` if a client decides how many items there are: `push`
 * passes them as arguments, and V8 throws a RangeError for about 120,000.
 */
export function appendTo<Item>(list: Item[], items: Iterable<Item>): void {
  for (const item of items) list.push(item)
}

/** The items in order, in lists of at most `size` items. */
export function chunksOf<Item>(items: readonly Item[], size: number): Item[][] {
  const chunks: Item[][] = []
  for (let from = 0; from < items.length; from += size) chunks.push(items.slice(from, from + size))
  return chunks
}
