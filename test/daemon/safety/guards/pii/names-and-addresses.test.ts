import fc from 'fast-check'
import { expect, test } from 'vitest'
import { LIVE_HOLD_CHARS } from '../../../../../src/daemon/safety/guards/detection.ts'
import { createPiiDetector } from '../../../../../src/daemon/safety/guards/pii/detector.ts'
import type { PiiEntity } from '../../../../../src/shared/pii-entities.ts'
import { expectIncremental } from '../incremental.ts'

const all = createPiiDetector({ entities: 'all' })
const byDefault = createPiiDetector()

function values(text: string, type: PiiEntity): string[] {
  return all
    .find(text)
    .filter((each) => each.type === type)
    .map(({ start, end }) => text.slice(start, end))
}

const ADDRESSES = [
  'My address is 12 Station Road\nFlat 3\nLeeds\nUnited Kingdom, and',
  '12 Station Road\nSpringfield, IL 62704\nUSA\n',
  'Hauptstraße 5\n10115 Berlin\nGermany\n\nSehr geehrte',
  'Please send it to Via Franscini 71, 6900 Lugano, Switzerland today',
  'Address:\n9 Elm Street\nApt. 12\nToronto, ON\nCanada.',
  'ship to 704 1436 Redbud Drive Suite 5, Albany, New Zealand 79879 now',
  'lives at Unit 4719 Box 7394\nDPO AP 70942 since',
  'at the corner of Bond Street and Park Avenue',
] as const
const WHOLE = [
  '12 Station Road\nFlat 3\nLeeds\nUnited Kingdom',
  '12 Station Road\nSpringfield, IL 62704\nUSA',
  'Hauptstraße 5\n10115 Berlin\nGermany',
  'Via Franscini 71, 6900 Lugano, Switzerland',
  '9 Elm Street\nApt. 12\nToronto, ON\nCanada',
  '704 1436 Redbud Drive Suite 5, Albany, New Zealand 79879',
  'Unit 4719 Box 7394\nDPO AP 70942',
  'the corner of Bond Street and Park Avenue',
] as const

test.each(ADDRESSES.map((text, index) => [text, WHOLE[index]!] as const))(
  '«%s» contains one address',
  (text, whole) => {
    expect(values(text, 'ADDRESS')).toEqual([whole])
    expectIncremental(all, text)
  },
)

test('a line of its own that is no city line does not belong to the address before it', () => {
  expect(values('12 Station Road\nOpening hours\nMonday 9 to 17', 'ADDRESS')).toEqual(['12 Station Road'])
  expect(values('12 Station Road\nLeeds\nYork\nDurham', 'ADDRESS')).toEqual(['12 Station Road'])
})

test('the text after an address is released once it cannot belong to the address', () => {
  const text = `Please ship it to 12 Station Road, Leeds, United Kingdom by the end of next week, because the parcel is late.`
  const held = [...text].map((_, index) => index + 1 - all.openFrom(text.slice(0, index + 1)))
  const address = '12 Station Road, Leeds, United Kingdom'.length
  expect(Math.max(...held)).toBeLessThanOrEqual(address + LIVE_HOLD_CHARS)
  const prose =
    'the parcel is late and nobody knows where it went after it had left the depot on the coast of the island. '
  const waiting = [...prose].map((_, index) => index + 1 - all.openFrom(prose.slice(0, index + 1)))
  expect(Math.max(...waiting)).toBeLessThanOrEqual(LIVE_HOLD_CHARS)
})

test.each([
  ['I work for Nordlicht Systems in Kiel', 'Nordlicht Systems'],
  ['3 Round Stones Inc is hiring', '3 Round Stones Inc'],
  ['Brightwell is a design agency based in Leeds.', 'Brightwell'],
  ['The Zentorix office is closed', 'Zentorix'],
  ["We'll meet Monday at Zentorix, second floor", 'Zentorix'],
  ['Maria Schneider\nZentorix\n12 Station Road\n', 'Zentorix'],
  ['a degree from the University of Leeds', 'University of Leeds'],
])('«%s» names a company or an institution', (text, name) => {
  expect(values(text, 'ORGANIZATION')).toEqual([name])
  expectIncremental(all, text)
})

test.each([
  ['my name is vitoria', 'vitoria'],
  ['hi joão silva, how are you', 'joão silva'],
  ['eva müller\nfirst line', 'eva müller'],
  ['she named him tommy last year', 'tommy'],
  ['您好，我叫王小明，住在北京。', '王小明'],
  ['请联系李先生。', '李'],
  ['田中太郎さんに連絡', '田中太郎'],
  ['私の名前は佐藤花子です。', '佐藤花子'],
  ['김민수 씨에게 전화', '김민수'],
  ['제 이름은 박지성입니다.', '박지성'],
  ['اسمي محمد العلي وأعيش في القاهرة', 'محمد العلي'],
  ['मेरा नाम राहुल शर्मा है।', 'राहुल शर्मा'],
  ['माझे नाव सचिन पाटील आहे', 'सचिन पाटील'],
  ['আমার নাম রহিম উদ্দিন।', 'রহিম উদ্দিন'],
  ['నా పేరు వెంకట రావు.', 'వెంకట రావు'],
  ['என் பெயர் முருகன் செல்வம்.', 'முருகன் செல்வம்'],
  ['письмо от Ивана Петрова вчера', 'Ивана Петрова'],
  ['Mark Johnson and I', 'Mark Johnson'],
  ['signed by Zoltán Khadzhiyev yesterday', 'Zoltán Khadzhiyev'],
])('«%s» contains a name', (text, name) => {
  expect(values(text, 'PERSON')).toContain(name)
  expectIncremental(all, text)
})

test.each([
  'this is great, and i am happy',
  'Dear Sir or Madam',
  '我是学生，老师您好',
  'お客様へのお知らせ',
  '고객님 안녕하세요, 이용자님',
  'The Server-Timing header and the Fastify plugin',
  'Max 3 retries',
  'const TypeError = WriteHeader',
  'npm run build && node server.js',
  'We support English, and studying German helps',
])('«%s» contains no name', (text) => {
  expect(
    all.find(text).filter(({ type }) => type === 'PERSON' || type === 'ORGANIZATION' || type === 'LOCATION'),
  ).toEqual([])
})

test.each([
  ['a heap size', 'heap size 1873741824 bytes, 4294967296 total, rss=536870912'],
  ['a date and a time', '20231105 2023-11-05T12:30:45Z 1700000000 1700000000000'],
  ['a commit', 'commit 3f786850e387550fdab836ed7e6dc881de23001b (HEAD)'],
  ['a digest', 'sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae'],
  [
    'an integrity hash',
    'sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==',
  ],
  ['versions', 'v18.20.4 10.0.19045.3693 1.2.3-beta.4 node@20.11.1'],
  ['an order number', 'Order #112-9384756-1029384, invoice INV-2023-000417, ticket 48151623'],
  ['an ISBN', 'ISBN 978-3-16-148410-0'],
  ['a port and a process', 'listening on 8080, pid 48213, exit code 137'],
  ['coordinates', '52.520008, 13.404954'],
  ['a size in pixels', '1920x1080, 3840 × 2160'],
  ['a row of measurements', '1023 2047 4095 8191 16383 32767 65535'],
  ['a memory address', '0x7ffee3b2c8a0 0000000000401136'],
  ['an AWS account in an ARN', 'arn:aws:iam::123456789012:role/deploy'],
  ['a trace', 'trace_id=4bf92f3577b34da6a3ce929d0e0e4736 span=00f067aa0ba902b7'],
  ['a snowflake', 'channel 175928847299117063'],
  ['a semantic range', '>=1.0.0 <2.0.0 || ^3.14.15'],
])('the default set ignores %s', (_what, text) => {
  expect(byDefault.find(text)).toEqual([])
})

test('addresses of the own machine identify nobody', () => {
  expect(all.find('curl http://localhost:8080/health http://127.0.0.1/ on 0.0.0.0')).toEqual([])
  expect(values('from 203.0.113.7', 'IP_ADDRESS')).toEqual(['203.0.113.7'])
})

test('the job on the line below a name is a title', () => {
  expect(values('Maria Schneider\nLeasing consultant\nZentorix', 'TITLE')).toEqual(['Leasing consultant'])
  expect(values('Release notes\nLeasing consultant\n', 'TITLE')).toEqual([])
})

test('names, companies, jobs and addresses in any order give the same findings in pieces', () => {
  const part = fc.constantFrom(
    ...ADDRESSES,
    'Maria Schneider\nleasing consultant\nZentorix\n',
    'my name is anna maria silva',
    '我叫王小明先生',
    '田中太郎さん',
    'اسمي محمد العلي',
    'Mrs. Harris, can you',
    'at Zentorix',
    '\n',
    ', ',
    ' and ',
    'Leeds',
    '62704',
  )
  fc.assert(
    fc.property(fc.array(part, { minLength: 2, maxLength: 4 }), (parts) => {
      expectIncremental(all, parts.join(' '))
    }),
    { numRuns: 40 },
  )
})
