// The URL guard: finds addresses that may send data of a conversation to unknown hosts, and control sequences.
import type { PolicyDocument } from '../../../../shared/wire/policies.ts'
import type { Detector, Finding } from '../detection.ts'
import { carriesData, type KnownTexts } from './carried-data.ts'
import { controlSequences, mayContainSequence, unfinishedSequenceFrom } from './control-sequences.ts'
import { mayContainUrl, type UrlSpan, unfinishedFrom, urlSpans } from './spans.ts'

/** The types of findings, and the text that replaces each of them. */
const REPLACEMENTS: Readonly<Record<string, string>> = {
  PICTURE_LINK: '#picture-removed',
  DATA_LINK: '#link-removed',
  SCRIPT_LINK: '#link-removed',
  UNKNOWN_LINK: '#link-removed',
  DATA_URL: '[link removed]',
  UNKNOWN_URL: '[link removed]',
  CONTROL_SEQUENCE: '',
}
const TYPES = Object.keys(REPLACEMENTS)
export const CONTROL_SEQUENCE = 'CONTROL_SEQUENCE'

/** Returns the text that replaces a finding of the URL guard. Undefined for findings of other guards. */
export const urlReplacement = (type: string): string | undefined =>
  Object.hasOwn(REPLACEMENTS, type) ? REPLACEMENTS[type] : undefined

/** A base that no answer contains. Relative addresses lead to the client's own host. */
const BASE = 'ftp://base.invalid/'
const BASE_HOST = 'base.invalid'
const SCRIPT = /^(?:javascript|vbscript):|^data:(?!image\/)/
const MARKDOWN_ESCAPE = /\\([!-/:-@[-`{-~])/g
const ENTITY =
  /&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|(amp|colon|sol|bsol|period|quest|equals|num|commat|lowbar|tab|newline));?/gi
const ENTITIES: Readonly<Record<string, string>> = {
  ...{ amp: '&', colon: ':', sol: '/', bsol: '\\', period: '.', quest: '?', equals: '=', num: '#', commat: '@' },
  ...{ lowbar: '_', tab: '\t', newline: '\n' },
}
const LOCAL_HOST = /^(?:localhost|.+\.localhost|127(?:\.\d{1,3}){3}|\[::1\])$/

/** Creates the URL guard of one answer. @param known the texts of the request */
export function createUrlDetector({ allowHosts, links }: PolicyDocument['urls'], known: KnownTexts): Detector {
  /** The type of finding of a complete address. Undefined if the address may stay. */
  function typeOf(text: string, kind: UrlSpan['kind']): string | undefined {
    const url = parse(text, kind)
    if (!url) return undefined
    if (kind !== 'bare' && SCRIPT.test(url.href)) return 'SCRIPT_LINK'
    const host = url.hostname
    if (host === '' || host === BASE_HOST) return undefined
    if (allowHosts.some((pattern) => isHost(pattern, host)) || LOCAL_HOST.test(host)) return undefined
    if (known.isGiven(text)) return undefined
    if (kind === 'picture') return 'PICTURE_LINK'
    const isBare = kind === 'bare'
    if (!known.contains(text) && carriesData(url, known)) return isBare ? 'DATA_URL' : 'DATA_LINK'
    // A host without a scheme is not a link until a client makes it one.
    if (links === 'all' && !(isBare && !HAS_SCHEME.test(text) && !/^www\./i.test(text)))
      return isBare ? 'UNKNOWN_URL' : 'UNKNOWN_LINK'
    return undefined
  }

  function find(text: string): Finding[] {
    const findings: Finding[] = controlSequences(text).map((range) => ({
      ...range,
      type: CONTROL_SEQUENCE,
      confidence: 1,
    }))
    for (const { start, end, kind } of urlSpans(text)) {
      const type = typeOf(text.slice(start, end), kind)
      if (type !== undefined) findings.push({ start, end, type, confidence: 1 })
    }
    return findings.sort((one, other) => one.start - other.start)
  }

  return {
    find,
    openFrom: (text) => Math.min(openUrlFrom(text), unfinishedFrom(text), unfinishedSequenceFrom(text)),
    begunFrom: (text) => Math.min(openUrlFrom(text), unfinishedSequenceFrom(text)),
    mayFind: (text) => mayContainUrl(text) || mayContainSequence(text),
    types: TYPES,
  }
}

const HAS_SCHEME = /^\w+:/

function openUrlFrom(text: string): number {
  const last = urlSpans(text).at(-1)
  return last?.isOpen ? last.start : text.length
}

/** Returns the address as a browser reads it: without Markdown escapes, HTML entities and line ends. */
function parse(text: string, kind: UrlSpan['kind']): URL | undefined {
  const plain = text.replace(MARKDOWN_ESCAPE, '$1').replace(ENTITY, readEntity)
  try {
    return new URL(kind === 'bare' && !HAS_SCHEME.test(plain) ? `http://${plain}` : plain, BASE)
  } catch {
    return undefined
  }
}

function readEntity(entity: string, decimal?: string, hex?: string, name?: string): string {
  if (name !== undefined) return ENTITIES[name.toLowerCase()] ?? entity
  const code = decimal === undefined ? Number.parseInt(hex ?? '', 16) : Number(decimal)
  return code <= 0x10ffff ? String.fromCodePoint(code) : ''
}

/** `*.example.com` matches subdomains, but not `example.com`. */
const isHost = (pattern: string, host: string): boolean =>
  pattern.startsWith('*.') ? host.endsWith(pattern.slice(1)) : host === pattern
