import { X509Certificate } from 'node:crypto'
import { dirname, resolve } from 'node:path'
import { readSecret } from './secret.ts'
import type { ConfigSources } from './sources.ts'
import { ValueFault } from './values.ts'

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g

/**
 * Returns the certificates of a PEM file, without its other content. A relative path starts at the folder of the
 * configuration file. Throws ValueFault.
 */
export function readCertificates(
  path: string,
  { readFile, configFile }: { readFile: ConfigSources['readFile']; configFile: string },
): string {
  const file = resolve(dirname(configFile), path)
  const certificates = readSecret(readFile, file).match(CERTIFICATE) ?? []
  if (certificates.length === 0)
    throw new ValueFault(`${file} contains no certificate; use a PEM file with -----BEGIN CERTIFICATE-----`)
  for (const [at, certificate] of certificates.entries()) {
    if (!isCertificate(certificate))
      throw new ValueFault(
        `certificate ${at + 1} of ${certificates.length} in ${file} is damaged; export the file again`,
      )
  }
  return certificates.join('\n')
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).fingerprint256 !== ''
  } catch {
    return false
  }
}
