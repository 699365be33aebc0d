/**
 * The detectable types of personal data. `class` states how a finding is confirmed, and therefore how reliable it is.
 * `checksum`: confirmed by a check digit or an issuer's list. `pattern`: recognised by its format. If the format is
 * weak, words before the match must confirm it. `heuristic`: recognised by typical words and their context.
 * `byDefault`: part of the default set of a policy.
 */
export const PII_ENTITIES = [
  entity('EMAIL', 'pattern', true, 'E-mail address', 'jane.doe@example.com'),
  entity(
    'PHONE',
    'pattern',
    true,
    'Phone number, international or in the national form of a region',
    '+44 20 7946 0958',
  ),
  entity('CREDIT_CARD', 'checksum', true, 'Payment card number', '4111 1111 1111 1111'),
  entity('IBAN', 'checksum', true, 'International bank account number', 'DE89 3704 0044 0532 0130 00'),
  entity(
    'CRYPTO_WALLET',
    'checksum',
    true,
    'Bitcoin address, or Ethereum address',
    '1BoatSLRHtKNngkdXEeobR76b53LETtpyT',
  ),
  entity('US_SSN', 'pattern', true, 'US social security number', '536-90-4399'),
  entity('US_ITIN', 'pattern', true, 'US individual taxpayer identification number', '912-70-1234'),
  entity('UK_NINO', 'pattern', true, 'UK national insurance number', 'AB 12 34 56 C'),
  entity('UK_NHS', 'checksum', true, 'UK NHS number', '943 476 5919'),
  entity('ES_DNI', 'checksum', true, 'Spanish identity document number', '12345678Z'),
  entity('ES_NIE', 'checksum', true, 'Spanish foreigner identity number', 'X1234567L'),
  entity('FR_NIR', 'checksum', true, 'French social security number', '1 84 12 76 451 089 46'),
  entity('DE_STEUER_ID', 'checksum', true, 'German tax identification number', '86 095 742 719'),
  entity('IT_CODICE_FISCALE', 'checksum', true, 'Italian tax code', 'RSSMRA85T10A562S'),
  entity('BR_CPF', 'checksum', true, 'Brazilian taxpayer number', '390.533.447-05'),
  entity('IN_AADHAAR', 'checksum', true, 'Indian Aadhaar number', '2341 2341 2346'),
  entity('IN_PAN', 'pattern', true, 'Indian permanent account number', 'ABCPE1234F'),
  entity('PASSPORT', 'pattern', true, 'Passport number, if nearby words indicate it', 'passport no. C01X00T47'),
  entity(
    'DRIVER_LICENSE',
    'pattern',
    true,
    'Driving licence number, if nearby words indicate it',
    'driving licence no. S12345678',
  ),
  entity(
    'NATIONAL_ID',
    'pattern',
    true,
    'Identity or tax number of another country, if nearby words indicate it',
    'PESEL 44051401359',
  ),
  entity('DATE_OF_BIRTH', 'pattern', true, 'Date of birth, if nearby words indicate it', 'born on 4 May 1985'),
  entity('IP_ADDRESS', 'pattern', false, 'IP address, version 4 or 6', '203.0.113.7'),
  entity('MAC_ADDRESS', 'pattern', false, 'Hardware address of a network interface', '00:1b:63:84:45:e6'),
  entity('URL', 'pattern', false, 'Web address or host name', 'https://example.com/me'),
  entity('DATE', 'heuristic', false, 'Any calendar date', '12 March 2021'),
  entity('AGE', 'heuristic', false, 'Age of a person', '42 years old'),
  entity('PERSON', 'heuristic', false, 'Name of a person', 'Maria Schneider'),
  entity('TITLE', 'heuristic', false, 'Form of address, or the job below a name', 'Mrs.'),
  entity('ADDRESS', 'heuristic', false, 'Postal address', '12 Station Road, Leeds'),
  entity('LOCATION', 'heuristic', false, 'Country, region or city', 'Portugal'),
  entity('ORGANIZATION', 'heuristic', false, 'Company or institution', 'Miller & Sons Ltd'),
  entity('NATIONALITY', 'heuristic', false, 'Nationality, religious or political group', 'Norwegian'),
] as const

export type PiiEntity = (typeof PII_ENTITIES)[number]['name']
export type PiiEntityClass = 'checksum' | 'pattern' | 'heuristic'

/** The default set: types that are detected by check digits or by an unambiguous format. */
export const DEFAULT_PII_ENTITIES: readonly PiiEntity[] = PII_ENTITIES.filter((each) => each.byDefault).map(
  (each) => each.name,
)

const NAMES: ReadonlySet<string> = new Set(PII_ENTITIES.map((each) => each.name))

export function isPiiEntity(name: string): name is PiiEntity {
  return NAMES.has(name)
}

function entity<const Name extends string>(
  name: Name,
  entityClass: PiiEntityClass,
  byDefault: boolean,
  description: string,
  example: string,
) {
  return { name, class: entityClass, byDefault, description, example }
}
