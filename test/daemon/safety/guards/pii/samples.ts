import type { PiiEntity } from '../../../../../src/shared/pii-entities.ts'

/** For every entity, sentences that contain one, with the expected value. */
export const SAMPLES: Readonly<Record<PiiEntity, readonly (readonly [sentence: string, value: string])[]>> = {
  EMAIL: [
    ['Write to jane.doe+news@mail.example.co.uk, please.', 'jane.doe+news@mail.example.co.uk'],
    ['<zoë@müller.example>', 'zoë@müller.example'],
    ['mail=x_1@example.org&a=b', 'x_1@example.org'],
  ],
  PHONE: [
    ['Call +44 20 7946 0958 now', '+44 20 7946 0958'],
    ['Tel. +41 (0)71 526 99 04.', '+41 (0)71 526 99 04'],
    ['my number: (415) 555-0132 x123', '(415) 555-0132 x123'],
    ['Ruf 030 12345678 an', '030 12345678'],
    ['You can call me at 9472 7916 today', '9472 7916'],
    ['电话13812345678', '13812345678'],
    ['28-64-66-98 office', '28-64-66-98'],
  ],
  CREDIT_CARD: [
    ['card 4111 1111 1111 1111 exp 12/27', '4111 1111 1111 1111'],
    ['5555555555554444', '5555555555554444'],
    ['3782-822463-10005 (amex)', '3782-822463-10005'],
    ['a,4012888888881881,123', '4012888888881881'],
  ],
  IBAN: [
    ['IBAN: DE89 3704 0044 0532 0130 00 thanks', 'DE89 3704 0044 0532 0130 00'],
    ['GB82WEST12345698765432.', 'GB82WEST12345698765432'],
    ['NO 93 8601 1117 947', 'NO 93 8601 1117 947'],
  ],
  CRYPTO_WALLET: [
    ['send to 1BoatSLRHtKNngkdXEeobR76b53LETtpyT', '1BoatSLRHtKNngkdXEeobR76b53LETtpyT'],
    ['bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq ok', 'bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq'],
    ['(0x56F0B8A998425c53c75C4A303D4eF987533c5597)', '0x56F0B8A998425c53c75C4A303D4eF987533c5597'],
  ],
  US_SSN: [
    ['SSN 536-90-4399.', '536-90-4399'],
    ['my ssn is 536904399', '536904399'],
  ],
  US_ITIN: [['ITIN: 912-70-1234', '912-70-1234']],
  UK_NINO: [
    ['NI number AB 12 34 56 C', 'AB 12 34 56 C'],
    ['AB123456C', 'AB123456C'],
  ],
  UK_NHS: [['NHS 943 476 5919 seen', '943 476 5919']],
  ES_DNI: [
    ['DNI 12345678Z', '12345678Z'],
    ['12.345.678-Z', '12.345.678-Z'],
  ],
  ES_NIE: [['NIE X-1234567-L', 'X-1234567-L']],
  FR_NIR: [
    ['1 84 12 76 451 089 46', '1 84 12 76 451 089 46'],
    ['184122A45108933', '184122A45108933'],
  ],
  DE_STEUER_ID: [['Steuer-ID 86 095 742 719', '86 095 742 719']],
  IT_CODICE_FISCALE: [
    ['CF RSSMRA45C12F205C', 'RSSMRA45C12F205C'],
    ['RSSMRAQRCMNFNLRG', 'RSSMRAQRCMNFNLRG'],
  ],
  BR_CPF: [['CPF 390.533.447-05.', '390.533.447-05']],
  IN_AADHAAR: [['Aadhaar 2341 2341 2346', '2341 2341 2346']],
  IN_PAN: [['PAN ABCPE1234F', 'ABCPE1234F']],
  PASSPORT: [
    ['passport no. C01X00T47 and', 'C01X00T47'],
    ['Reisepassnummer: C01X00T47', 'C01X00T47'],
    ['护照号码 E12345678', 'E12345678'],
  ],
  DRIVER_LICENSE: [
    ["my driver's license number is F162823540116", 'F162823540116'],
    ['MORGA657054SM9IJ', 'MORGA657054SM9IJ'],
  ],
  NATIONAL_ID: [['PESEL: 44051401359', '44051401359']],
  DATE_OF_BIRTH: [
    ['She was born on 2/8/1935.', '2/8/1935'],
    ['geboren am 4. Mai 1985', '4. Mai 1985'],
    ['DOB: May 4, 1985', 'May 4, 1985'],
    ['date of birth 1985-05-04', '1985-05-04'],
  ],
  IP_ADDRESS: [
    ['from 203.0.113.7:80', '203.0.113.7'],
    ['[2001:db8::1]', '2001:db8::1'],
    ['684D:1111:222:3333:4444:5555:6:77', '684D:1111:222:3333:4444:5555:6:77'],
  ],
  MAC_ADDRESS: [['MAC 00:1b:63:84:45:e6', '00:1b:63:84:45:e6']],
  URL: [
    ['see https://example.com/me?a=1#b.', 'https://example.com/me?a=1#b'],
    ['(www.example.org)', 'www.example.org'],
  ],
  DATE: [
    ['on 12 March 2021, we', '12 March 2021'],
    ['founded in 1977', '1977'],
    ['on Sunday', 'Sunday'],
  ],
  AGE: [
    ['a 38-year-old male', '38'],
    ['I just turned 47', '47'],
  ],
  PERSON: [
    ['signed by Maria Schneider yesterday', 'Maria Schneider'],
    ['My name is Rubija', 'Rubija'],
    ['with Dr. Berta Szöllössy?', 'Berta Szöllössy'],
    ['Leonardo van der Berg said', 'Leonardo van der Berg'],
  ],
  TITLE: [['ask Mrs. Labrie', 'Mrs.']],
  ADDRESS: [
    ['at 12 Station Road today', '12 Station Road'],
    ['Hauptstraße 5', 'Hauptstraße 5'],
    ['Via Franscini 71,', 'Via Franscini 71'],
    ['zip code is 90210', '90210'],
  ],
  LOCATION: [
    ['moved to Portugal', 'Portugal'],
    ['in New York City', 'New York City'],
    ['grew up in Remniku', 'Remniku'],
  ],
  ORGANIZATION: [['at Galorath Incorporated', 'Galorath Incorporated']],
  NATIONALITY: [['an Icelandic bank', 'Icelandic']],
}
