import type { ResolveHost } from '../../../src/daemon/platform/network/name-cache.ts'

export type TargetCase = {
  id: string
  url: string
  dns: string
  expect: string
  expectAllowPrivate: string
  note: string
}

/** Rows of a table whose third column is the content of a JSON string; one row may stand for several notes. */
export function readTargetCases(text: string): TargetCase[] {
  const [header = '', ...lines] = text.trimEnd().split('\n')
  const columns = header.split('\t')
  return lines.map((line) => {
    const cells = line.split('\t')
    const cell = (name: string) => cells[columns.indexOf(name)] ?? ''
    return {
      id: cell('id'),
      url: JSON.parse(`"${cell('url_json')}"`),
      dns: cell('dns'),
      expect: cell('expect'),
      expectAllowPrivate: cell('expect_allow_private'),
      note: cell('note'),
    }
  })
}

/** `policy` leaves the decision to the project; we reject. */
export const isLet = (expected: string, found: 'allow' | 'deny'): boolean =>
  (expected === 'policy' ? 'deny' : expected) === found

/**
 * DNS responses from the `dns` column: `A:1.2.3.4,AAAA:::1`; several responses in sequence separated by `->` (the last
 * one repeats) or `|`
 * (cyclic); `NXDOMAIN`, `SERVFAIL`, `TIMEOUT`, or no records.
 */
export function scriptedResolver(dns: string, own: string): ResolveHost {
  const alternating = dns.includes(' | ')
  const answers = dns.replace(' (alternating)', '').split(alternating ? ' | ' : ' -> ')
  let asked = 0
  return () => {
    const answer = answers[alternating ? asked % answers.length : Math.min(asked, answers.length - 1)] ?? ''
    asked++
    if (answer === 'TIMEOUT') return new Promise(() => undefined)
    if (/^(NXDOMAIN|SERVFAIL|-$)/.test(answer)) return Promise.reject(new Error(answer))
    if (answer.startsWith('NOERROR')) return Promise.resolve([])
    if (answer.startsWith('CNAME:metadata.')) return Promise.resolve(['169.254.169.254'])
    if (answer.startsWith('A:<')) return Promise.resolve([own])
    return Promise.resolve(answer.split(',').map((record) => record.replace(/^A{1,4}:/, '')))
  }
}
