import { rules } from '@secretlint/secretlint-rule-preset-recommend'
import type { Finding } from '../detection.ts'

type RuleContext = Parameters<(typeof rules)[number]['create']>[0]
type Source = Parameters<NonNullable<ReturnType<(typeof rules)[number]['create']>['file']>>[0]

const NAME_SPACE = '@secretlint/secretlint-rule-'

/**
 * Excluded rules. `gcp` scans whole files. `privatekey` scans several lines, as private-keys.ts already does.
 * `filter-comments` would allow a `secretlint-disable` comment in the text to disable the scan.
 */
const NOT_FOR_RUNS = ['gcp', 'privatekey', 'filter-comments']

/**
 * Applies secretlint's recommended rules to some runs of characters in a text. `runs` lists their offsets: [start, end,
 * start, end, …].
 */
export type ListedSecrets = (text: string, runs: readonly number[]) => Finding[]

/** Joins the runs, one per line, so that each rule is called only once for all runs. */
export function createListedSecrets(): ListedSecrets {
  let found: Finding[] = []
  const scanners = rules
    .map((rule) => ({ rule, name: rule.meta.id.replace(NAME_SPACE, '') }))
    .filter(({ name }) => !NOT_FOR_RUNS.includes(name))
    .map(({ rule, name }) => {
      const context: RuleContext = {
        sharedOptions: {},
        createTranslator: () => (messageId) => ({ message: '', messageId: String(messageId), data: undefined }),
        report: ({ range: [start, end] }) => found.push({ start, end, type: name, confidence: 0.9 }),
        ignore: () => {},
      }
      return rule.create(context, {})
    })

  return (text, runs) => {
    if (runs.length === 0) return []
    found = []
    const { lines, starts } = joinRuns(text, runs)
    const source = toSource(lines)
    // These rules are synchronous, so all findings have been reported when the rules return.
    for (const scanner of scanners) scanner.file?.(source)
    return found.map((finding) => backInText(finding, starts, runs))
  }
}

function joinRuns(text: string, runs: readonly number[]): { lines: string; starts: number[] } {
  const lines: string[] = []
  const starts: number[] = []
  let length = 0
  for (let at = 0; at < runs.length; at += 2) {
    const line = text.slice(runs[at], runs[at + 1])
    starts.push(length)
    lines.push(line)
    length += line.length + 1
  }
  return { lines: lines.join('\n'), starts }
}

function backInText(finding: Finding, starts: readonly number[], runs: readonly number[]): Finding {
  let [low, high] = [0, starts.length - 1]
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if ((starts[middle] ?? 0) <= finding.start) low = middle
    else high = middle - 1
  }
  const shift = (runs[low * 2] ?? 0) - (starts[low] ?? 0)
  return { ...finding, start: finding.start + shift, end: Math.min(finding.end + shift, runs[low * 2 + 1] ?? 0) }
}

/** Wraps the text as a source without a file. The rules do not use line positions. */
function toSource(content: string): Source {
  const unused = (): never => {
    throw new Error('a secretlint rule requested a position in a file, which is unsupported')
  }
  return {
    content,
    hasBOM: false,
    filePath: undefined,
    physicalFilePath: undefined,
    contentType: 'text',
    ext: '',
    getFilePath: () => undefined,
    getPhysicalFilePath: () => undefined,
    locationToRange: unused,
    rangeToLocation: unused,
    positionToIndex: unused,
    indexToPosition: unused,
  }
}
