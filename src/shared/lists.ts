/**
 * Appends items to a list. Use it instead of `push(...items)` if a client decides how many items there are: `push`
 * passes them as arguments, and V8 throws a RangeError for about 120,000.
 */
export function appendTo<Item>(list: Item[], items: Iterable<Item>): void {
  for (const item of items) list.push(item)
}
