/** Parses and formats the fields of policy documents, as in `--set`. */
import { usageError } from '../../errors.ts'
import { type Fields, isObject, withFlags } from '../../input/from-file.ts'
import { findAtPath } from '../../output/formats.ts'

/** The path of a field in a policy document, such as `pii.action`, and its value. */
export type Setting = { path: string; value: unknown }

/**
 * The list fields of SMLTP policies and prompt shield policies. Some list fields also accept one of `WORDS` instead of
 * a list.
 */
const LISTS = [
  'layers',
  ...['allowedModels', 'deniedModels', 'allowedProviders', 'residency.allowedRegions'],
  ...['egress.allowHosts', 'egress.denyHosts', 'pii.entities', 'dlp.rules'],
]
const WORDS = ['all', 'default']

/**
 * Reads `PATH=VALUE`. The value is JSON or text. For a list field, the value may also be a comma-separated list. The
 * gateway validates it. Throws a usage error for anything else.
 */
export function toSetting(text: string): Setting {
  const [, path, value] = /^([A-Za-z]+(?:\.[A-Za-z_]+)?)=(.*)$/s.exec(text) ?? []
  if (path === undefined || value === undefined) {
    throw usageError(`--set must be FIELD=VALUE, not '${text}'`, ['Such as:  --set pii.action=mask'])
  }
  return { path, value: toValue(path, value) }
}

function toValue(path: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // A value that is not JSON is text.
  }
  if (!LISTS.includes(path) || WORDS.includes(text)) return text
  return text.split(',').flatMap((entry) => entry.trim() || [])
}

/** Returns a copy of the document in which these fields are set. Other fields stay. */
export function withSettings(document: object, settings: readonly Setting[]): Fields {
  let changed: Fields = { ...document }
  for (const { path, value } of settings) {
    const [section = '', field] = path.split('.')
    changed =
      field === undefined ? { ...changed, [section]: value } : withFlags(changed, { [section]: { [field]: value } })
  }
  return changed
}

/** Formats the fields of a document as `--set` accepts them. Omits disabled sections and empty values. */
export function toSettingTexts(document: unknown): string[] {
  if (!isObject(document)) return []
  return Object.entries(document).flatMap(([name, value]) => {
    if (name === 'version') return []
    if (!isObject(value)) return toText(name, value)
    if (isOff(value)) return []
    return Object.entries(value).flatMap(([field, inner]) => toText(`${name}.${field}`, inner))
  })
}

/** Whether a section is disabled. */
function isOff(section: object): boolean {
  const regions = findAtPath(section, 'allowedRegions')
  return (
    findAtPath(section, 'enabled') === false ||
    findAtPath(section, 'required') === false ||
    findAtPath(section, 'unknownHosts') === 'allow' ||
    (Array.isArray(regions) && regions.length === 0)
  )
}

function toText(path: string, value: unknown): string[] {
  if (value === null || value === false) return []
  if (!Array.isArray(value)) return [`${path}=${value}`]
  return value.length === 0 ? [] : [`${path}=${value.join(',')}`]
}
