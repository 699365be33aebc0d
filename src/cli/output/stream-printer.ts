import type { CliContext } from '../context.ts'
import { usageError } from '../errors.ts'
import { toJson } from './formats.ts'

type Printed<Item> = {
  /** The command, for messages. */
  name: string
  /** The plural noun for the items, for messages. */
  items: string
  /** Returns the words of the line that shows an item in the `table` format. */
  toWords(item: Item): string[]
}

/**
 * Returns a function that prints one item at a time, as the items arrive. Throws a usage error if the output format
 * cannot be streamed.
 */
export async function streamPrinter<Item extends { id: string }>(
  context: CliContext,
  { name, items, toWords }: Printed<Item>,
): Promise<(item: Item) => Promise<void>> {
  const [output, { format = 'table', raw, field, fields }] = await Promise.all([context.output(), context.settings()])
  if (raw || field !== undefined || fields.length > 0) throw usageError(`${name} prints whole ${items}`)
  switch (format) {
    case 'table':
      // Line breaks are replaced, because names may contain them.
      return (item) =>
        output.text(
          `${toWords(item)
            .join('  ')
            .replace(/[\r\n]+/g, ' ')}\n`,
        )
    case 'json':
    case 'ndjson':
      return (item) => output.text(toJson(item, { indent: 0, terminal: output.terminal }))
    case 'id':
      return ({ id }) => output.text(`${id}\n`)
    case 'yaml':
    case 'tsv':
    case 'csv':
      throw usageError(`${name} does not print ${format}`, ['Use another format: -o table, ndjson or id.'])
  }
}
