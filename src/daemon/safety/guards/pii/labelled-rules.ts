import type { PiiEntity } from '../../../../shared/pii-entities.ts'

/**
 * A rule for numbers without a distinctive form. Such a number counts as personal data only if certain words directly
 * precede it.
 */
export type LabelledRule = {
  entity: PiiEntity
  /**
   * Matches the preceding words in lower case. A few filler words ("no.", "is", ":") may separate these words from the
   * number.
   */
  label: RegExp
  /** The minimum length of a number without separators, and the minimum number of digits. */
  minLength: number
  maxLength: number
  minDigits: number
}

export const LABELLED_RULES: readonly LabelledRule[] = [
  {
    entity: 'PASSPORT',
    label: label(
      'passports?|passeports?|pasaportes?|passaport[oei]|reisep(?:ass|ä)\\w{0,12}|pass-?(?:nummer|nr)|paspoort\\w{0,8}|pasnummer|paszport\\w{0,3}',
      'паспорт|护照|護照|パスポート|旅券|여권',
    ),
    minLength: 6,
    maxLength: 10,
    minDigits: 3,
  },
  {
    entity: 'DRIVER_LICENSE',
    label: label(
      "driv(?:er|ing)['’]?s?[ -]?(?:licen[cs]e|permit)|licen[cs]e (?:no|number|num|#)|führerschein\\w{0,8}|permis de conduire|(?:carn[eé]t?|licencia|permiso) de conducir|patente(?: di guida)?|carta de conduç[ãa]o|cnh|rijbewijs\\w{0,8}|körkort\\w{0,8}|prawo jazdy",
      'водительск|驾驶证|驾照|運転免許',
    ),
    minLength: 5,
    maxLength: 18,
    minDigits: 4,
  },
  {
    entity: 'NATIONAL_ID',
    label: label(
      'national id\\w{0,8}|identity (?:card|number|no|document)|id (?:card|number|no)|personal (?:id|identity|identification) ?\\w{0,8}|social insurance|tax(?:payer)? (?:id|number|no|identification|file number|reference)|personalausweis\\w{0,8}|ausweis\\w{0,8}|sozialversicherungs\\w{0,8}|rentenversicherungs\\w{0,8}|svnr|carte d.identité|carta d.identità|c[eé]dula(?: de \\w{4,14})?|cartão de cidadão|documento de identidad|pesel|nip|bsn|burgerservicenummer|sofinummer|rijksregister\\w{0,8}|personnummer|fødselsnummer|cpr(?:-nr|-nummer)?|henkilötunnus|hetu|kennitala|cnp|egn|jmbg|oib|emšo|amka|rodné číslo|sin|tfn|curp|rfc|cuil|cuit|rut|run|nric|fin|kimlik(?: no)?|mbi|medicare(?: id)?|nhif|pps|rg',
      'инн|снилс|егн|єдрпоу|身份证|身分證|マイナンバー|個人番号|주민등록',
    ),
    minLength: 6,
    maxLength: 18,
    minDigits: 5,
  },
]

/**
 * Builds the pattern of a label. `words` match as whole words. `stems` also match inside words, for scripts without
 * spaces and for inflected languages.
 */
function label(words: string, stems: string): RegExp {
  return new RegExp(`(?:(?<![\\p{L}\\d_])(?:${words})(?![\\p{L}\\d_])|(?:${stems}))[^!?;\\d\\n]{0,32}$`, 'u')
}
