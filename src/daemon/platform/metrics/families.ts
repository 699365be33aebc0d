// Metrics for the hot path. `labels()` of prom-client builds a text of all labels on every observation. These families
// return a cell once, and an observation only adds to numbers. The cells are read when the metrics are.
import {
  Counter,
  Gauge,
  Histogram,
  type MetricObjectWithValues,
  type MetricValue,
  type MetricValueWithName,
  type Registry,
} from 'prom-client'

/** One series of a counter. */
export type CounterCell = { value: number }

/** One series of a histogram. */
export type HistogramCell = { observe(value: number): void }

export type Family<Cell> = {
  /** Returns the cell with these values of the labels, in the order of their names. Keep the cell on a hot path. */
  cell(...values: string[]): Cell
}

type Described = { name: string; help: string; labelNames?: readonly string[]; registers: Registry[] }

/** Creates a counter. */
export function counterFamily({ name, help, labelNames = [], registers }: Described): Family<CounterCell> {
  const cells = createCells(labelNames, (): CounterCell => ({ value: 0 }))
  new Counter({
    name,
    help,
    labelNames: [...labelNames],
    registers,
    collect() {
      this.reset()
      for (const { labels, cell } of cells.all()) this.inc(labels, cell.value)
    },
  })
  return cells
}

/** Creates a histogram. @param buckets the upper bounds, in increasing order */
export function histogramFamily({
  buckets,
  ...described
}: Described & { buckets: readonly number[] }): Family<HistogramCell> {
  const cells = createCells(described.labelNames ?? [], () => new Buckets(buckets))
  new CellHistogram(described, buckets, cells)
  return cells
}

/** Creates a gauge whose series are read on each scrape. If they cannot be read, the scrape lacks them. */
export function readGauge<Name extends string>(
  { name, help, labelNames = [], registers }: Described & { labelNames?: readonly Name[] },
  read: () => Reading<Name> | Promise<Reading<Name>>,
): void {
  new Gauge({
    name,
    help,
    labelNames: [...labelNames],
    registers,
    async collect() {
      this.reset()
      const values = await Promise.resolve()
        .then(read)
        .catch(() => [])
      for (const { labels, value } of values) this.set(labels ?? {}, value)
    },
  })
}

type Reading<Name extends string> = readonly { labels?: Record<Name, string>; value: number }[]

type Cells<Cell> = Family<Cell> & { all(): Iterable<{ labels: Record<string, string>; cell: Cell }> }

function createCells<Cell>(labelNames: readonly string[], create: () => Cell): Cells<Cell> {
  const known = new Map<string, { labels: Record<string, string>; cell: Cell }>()
  function cell(...values: string[]): Cell {
    const key = values.join('\n')
    const found = known.get(key)
    if (found) return found.cell
    const labels = Object.fromEntries(labelNames.map((name, at) => [name, values[at] as string]))
    const added = { labels, cell: create() }
    known.set(key, added)
    return added.cell
  }
  // A metric without labels exists from the start.
  if (labelNames.length === 0) cell()
  return { cell, all: () => known.values() }
}

class Buckets implements HistogramCell {
  readonly counts: number[]
  sum = 0
  count = 0
  readonly #bounds: readonly number[]

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.counts = bounds.map(() => 0)
  }

  observe(value: number): void {
    this.sum += value
    this.count += 1
    const bounds = this.#bounds
    for (let at = 0; at < bounds.length; at++) {
      if (value > (bounds[at] as number)) continue
      this.counts[at] = (this.counts[at] as number) + 1
      return
    }
  }
}

/** A histogram of the library whose values come from cells. */
class CellHistogram extends Histogram {
  readonly #help: string
  readonly #name: string
  readonly #bounds: readonly number[]
  readonly #cells: Cells<Buckets>

  constructor({ name, help, labelNames = [], registers }: Described, bounds: readonly number[], cells: Cells<Buckets>) {
    super({ name, help, labelNames: [...labelNames], registers, buckets: [...bounds] })
    this.#name = name
    this.#help = help
    this.#bounds = bounds
    this.#cells = cells
  }

  override async get(): Promise<MetricObjectWithValues<MetricValue<string>>> {
    return this.getForPromString()
  }

  /** The library prefers this method to `get` when it writes the text. */
  async getForPromString(): Promise<MetricObjectWithValues<MetricValue<string>>> {
    const values = [...this.#cells.all()].flatMap(({ labels, cell }) => this.#valuesOf(labels, cell))
    const read = { name: this.#name, help: this.#help, type: 'histogram', aggregator: 'sum', values }
    // The types also demand `collect`, which the library does not read here.
    return read as unknown as MetricObjectWithValues<MetricValue<string>>
  }

  #valuesOf(labels: Record<string, string>, { counts, sum, count }: Buckets): MetricValueWithName<string>[] {
    let below = 0
    const bounded = this.#bounds.map((bound, at) => {
      below += counts[at] as number
      return { metricName: `${this.#name}_bucket`, labels: { le: String(bound), ...labels }, value: below }
    })
    return [
      ...bounded,
      { metricName: `${this.#name}_bucket`, labels: { le: '+Inf', ...labels }, value: count },
      { metricName: `${this.#name}_sum`, labels, value: sum },
      { metricName: `${this.#name}_count`, labels, value: count },
    ]
  }
}
